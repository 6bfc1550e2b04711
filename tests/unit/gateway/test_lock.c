/* SPDX-License-Identifier: Apache-2.0 */
/* A child enters the gate's jail and tries; the same attempt is shown to work before, where it can. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "gateway/gate_jail.h"
#include "os/fd.h"

/* Each returns 0 if it could be done. */
static int opens_a_file(void) {
    CLEANUP(closep) int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -1 : 0;
}

static int looks_at_a_file(void) {
    struct stat st;

    return stat("/etc/passwd", &st);
}

static int makes_a_process(void) {
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static int makes_a_unix_socket(void) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd < 0 ? -1 : 0;
}

static int makes_a_netlink_socket(void) {
    CLEANUP(closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);

    return fd < 0 ? -1 : 0;
}

static int makes_code(void) {
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? -1 : munmap(p, 4096);
}

static int turns_data_into_code(void) {
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? -1 : mprotect(p, 4096, PROT_READ | PROT_EXEC);
}

static int signals_its_parent(void) {
    return kill(getppid(), 0);
}

static int sets_a_limit(void) {
    struct rlimit r = {1, 1};

    return setrlimit(RLIMIT_CORE, &r);
}

static int listens(void) {
    CLEANUP(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd < 0 ? -1 : listen(fd, 1);
}

/* What it has to be able to do. */
static int makes_internet_sockets(void) {
    static const struct {
        int family, kind;
    } kinds[] = {{AF_INET, SOCK_STREAM}, {AF_INET6, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}, {AF_INET6, SOCK_DGRAM}};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        CLEANUP(closep) int fd = socket(kinds[i].family, kinds[i].kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 && errno != EAFNOSUPPORT)
            return -1;
    }
    return 0;
}

static int makes_a_pipe(void) {
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    close(fds[0]);
    return close(fds[1]);
}

static int is_root(void) {
    return getuid() == 0 || geteuid() == 0 || getgid() == 0 || getegid() == 0 ? 0 : -1;
}

static bool in_child(int (*attempt)(void), bool locked) {
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        struct err err = {0};
        size_t files;

        if (locked && gate_lock(&files, &err) < 0)
            _exit(100);
        _exit(attempt() == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 100);
    return WEXITSTATUS(status) == 0;
}

static void what_is_kept_away(void **state UNUSED) {
    static int (*const attempts[])(void) = {
        opens_a_file, looks_at_a_file,      makes_a_process,    makes_a_unix_socket, makes_a_netlink_socket,
        makes_code,   turns_data_into_code, signals_its_parent, sets_a_limit,        listens,
    };

    for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
        assert_true(in_child(attempts[i], false));
        assert_false(in_child(attempts[i], true));
    }
    assert_false(in_child(is_root, true));
}

static void what_is_left(void **state UNUSED) {
    assert_true(in_child(makes_internet_sockets, true));
    assert_true(in_child(makes_a_pipe, true));
}

static void a_program_is_the_end(void **state UNUSED) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        struct err err = {0};
        size_t files;

        if (gate_lock(&files, &err) == 0)
            execl("/bin/true", "true", NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

static void limits(void **state UNUSED) {
    int report[2];
    size_t files = 0;
    pid_t pid;

    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct err err = {0};
        struct rlimit low = {256, 8192};

        setrlimit(RLIMIT_NOFILE, &low);
        if (gate_lock(&files, &err) < 0 || prctl(PR_GET_DUMPABLE) == 1)
            _exit(1);
        _exit(write(report[1], &files, sizeof files) == sizeof files ? 0 : 1);
    }
    close(report[1]);
    assert_int_equal(read(report[0], &files, sizeof files), sizeof files);
    assert_int_equal(files, 8192);
    close(report[0]);
    waitpid(pid, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_kept_away), cmocka_unit_test(what_is_left),
                                       cmocka_unit_test(a_program_is_the_end), cmocka_unit_test(limits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
