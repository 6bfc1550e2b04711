/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/fd.h"

struct folder {
    char path[32];
    int fd;
};

static int setup(void **state) {
    static struct folder f;

    snprintf(f.path, sizeof f.path, "/tmp/bawn-fd-XXXXXX");
    assert_non_null(mkdtemp(f.path));
    f.fd = open(f.path, O_PATH | O_CLOEXEC);
    assert_true(f.fd >= 0);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    struct folder *f = *state;

    unlinkat(f->fd, "file", 0);
    close(f->fd);
    return rmdir(f->path);
}

static void write_file(const struct folder *f, const void *data, size_t len) {
    CLEANUP(closep) int fd = openat(f->fd, "file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}

static void test_read_file_limits(void **state) {
    static const struct {
        size_t file, buffer;
        ssize_t want;
    } table[] = {{0, 1, 0},    {0, 16, 0},       {1, 1, -EFBIG},   {1, 2, 1},
                 {15, 16, 15}, {16, 16, -EFBIG}, {17, 16, -EFBIG}, {5000, 16, -EFBIG}};
    static char data[5000];

    memset(data, 'x', sizeof data);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char *buf = malloc(table[i].buffer); /* of exactly that size, for AddressSanitizer */

        write_file(*state, data, table[i].file);
        assert_int_equal(fd_read_file_at(((struct folder *)*state)->fd, "file", buf, table[i].buffer), table[i].want);
        if (table[i].want >= 0)
            assert_int_equal(strlen(buf), table[i].want);
        free(buf);
    }
}

static void test_read_file_errors(void **state) {
    const struct folder *f = *state;
    char buf[64] = "as it was";
    ssize_t n;

    assert_int_equal(fd_read_file_at(f->fd, "missing", buf, sizeof buf), -ENOENT);
    assert_int_equal(fd_read_file_at(-1, "file", buf, sizeof buf), -EBADF);
    assert_int_equal(fd_read_file_at(AT_FDCWD, f->path, buf, sizeof buf), -EISDIR);
    assert_string_equal(buf, "as it was");
    n = fd_read_file_at(AT_FDCWD, "/proc/self/comm", buf, sizeof buf); /* a file of size 0 with content */
    assert_true(n > 1);
    assert_int_equal(n, strlen(buf));
}

static void test_write_file(void **state) {
    const struct folder *f = *state;
    char buf[64];

    assert_int_equal(fd_write_file_at(f->fd, "file", "x"), -ENOENT); /* never made: /proc and cgroup files exist or do not */
    write_file(f, "0123456789", 10);
    assert_int_equal(fd_write_file_at(f->fd, "file", "abc"), 0);
    assert_int_equal(fd_read_file_at(f->fd, "file", buf, sizeof buf), 10);
    assert_string_equal(buf, "abc3456789");
    assert_int_equal(fd_write_file_at(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

static void on_alarm(int sig) {
    (void)sig;
}

/* More than a pipe holds, while a timer interrupts again and again: nothing is lost or repeated. */
static void test_whole_writes(void **state) {
    static char sent[1 << 20], got[1 << 20];
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    const struct sigaction interrupting = {.sa_handler = on_alarm};
    size_t n = 0;
    ssize_t r;
    int pipe_[2], status;
    pid_t pid;

    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)(i * 7 + i / 4096);
    assert_int_equal(pipe2(pipe_, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    sigaction(SIGALRM, &interrupting, NULL);
    setitimer(ITIMER_REAL, &often, NULL); /* not inherited: both sides set it */
    if (pid == 0) {
        close(pipe_[0]);
        _exit(fd_write_all(pipe_[1], sent, sizeof sent) == 0 ? 0 : 1);
    }
    close(pipe_[1]);
    while ((r = fd_read_some(pipe_[0], got + n, sizeof got - n)) > 0)
        n += (size_t)r;
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(r, 0);
    assert_int_equal(n, sizeof sent);
    assert_memory_equal(got, sent, n);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(pipe_[0]);
}

static void test_write_errors(void **state) {
    CLEANUP(closep) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    assert_int_equal(fd_write_all(full, "x", 1), -ENOSPC);
    assert_int_equal(fd_write_all(full, "x", 0), 0);
    assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(fd_read_some(-1, (char[1]){0}, 1), -EBADF);
}

/* In a child: opens descriptors around `first`, closes from there, says what went wrong by its status. */
static int close_from_child(int (*prepare)(void)) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (prepare && prepare() < 0)
            _exit(10);
        for (int fd = 200; fd < 300; fd++)
            if (dup2(STDERR_FILENO, fd) != fd)
                _exit(11);
        if (fd_close_from(250) != 0)
            _exit(12);
        for (int fd = 200; fd < 300; fd++)
            if ((fcntl(fd, F_GETFD) >= 0) != (fd < 250))
                _exit(13);
        _exit(fd_close_from(1000) == 0 ? 0 : 14); /* nothing to close */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_close_from(void **state) {
    assert_int_equal(close_from_child(NULL), 0);
}

/* Acts as a kernel before 5.9. */
static int without_close_range(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {ARRAY_LEN(code), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
        return -1;
    return syscall(SYS_close_range, 1000, 1000, 0) < 0 && errno == ENOSYS ? 0 : -1;
}

static void test_close_from_on_an_old_kernel(void **state) {
    assert_int_equal(close_from_child(without_close_range), 0);
}

static void test_move_above(void **state) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), moved;

    assert_int_equal(fd_move_above(fd, 0), fd); /* high enough already */
    moved = fd_move_above(fd, 100);
    assert_true(moved >= 100);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* it was taken */
    assert_int_equal(fcntl(moved, F_GETFD), FD_CLOEXEC);
    close(moved);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fd_move_above(fd, 1 << 30), -EINVAL); /* taken also when it fails */
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void test_closep(void **state) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), number = fd;

    closep(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(fcntl(number, F_GETFD), -1);
    closep(&fd);
}

static void test_memory(void **state) {
    char text[8] = "";
    int fd = fd_memory("test", "content", 7);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fd_read_full(fd, text, sizeof text), 7);
    assert_string_equal(text, "content");
    close(fd);
}

static void test_read_full(void **state) {
    CLEANUP(closep) int in = -1, out = -1;
    char text[4];

    (void)state;
    assert_int_equal(fd_pipe(&in, &out), 0);
    assert_int_equal(fcntl(in, F_GETFD) & fcntl(out, F_GETFD), FD_CLOEXEC);
    if (fork() == 0) {
        for (int i = 0; i < 6; i++)
            fd_write_all(out, "x", 1);
        _exit(0);
    }
    closep(&out);
    assert_int_equal(fd_read_full(in, text, sizeof text), 4);
    assert_int_equal(fd_read_full(in, text, sizeof text), 2);
    assert_int_equal(fd_read_full(in, text, sizeof text), 0);
    assert_int_equal(fd_read_full(-1, text, sizeof text), -EBADF);
    wait(NULL);
}

static void test_close_all(void **state) {
    int fds[2];

    (void)state;
    assert_int_equal(fd_pipe(&fds[0], &fds[1]), 0);
    fd_close_all(fds, 0);
    assert_true(fcntl(fds[0], F_GETFD) >= 0);
    fd_close_all(fds, 2);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    assert_int_equal(fcntl(fds[1], F_GETFD), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_read_file_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_file_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_file, setup, teardown),
        cmocka_unit_test(test_whole_writes),
        cmocka_unit_test(test_write_errors),
        cmocka_unit_test(test_close_from),
        cmocka_unit_test(test_close_from_on_an_old_kernel),
        cmocka_unit_test(test_move_above),
        cmocka_unit_test(test_closep),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_read_full),
        cmocka_unit_test(test_close_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
