/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "jail/fence/cell.h"
#include "os/fd.h"
#include "os/process.h"

struct told {
    pid_t pid, parent;
    volatile int written;
    char cgroup[4096];
};

static int tell(void *arg) {
    struct told *t = arg;

    t->pid = (pid_t)syscall(SYS_getpid); /* libc might remember its own */
    t->parent = (pid_t)syscall(SYS_getppid);
    t->written = 1;
    return 42;
}

static int exit_status(pid_t pid) {
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_shared_memory(void **state) {
    struct told t = {0};
    int pidfd = -7;
    pid_t pid = process_clone(tell, &t, CLONE_VM | CLONE_VFORK, &pidfd);

    assert_true(pid > 0);
    assert_int_equal(t.written, 1); /* we slept until it was done */
    assert_int_equal(t.pid, pid);
    assert_int_equal(t.parent, getpid());
    assert_int_equal(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, -1), 1);
    assert_int_equal(exit_status(pid), 42);
    close(pidfd);
}

static void test_copied_memory(void **state) {
    struct told t = {0};
    pid_t pid = process_clone(tell, &t, 0, NULL);

    assert_true(pid > 0);
    assert_int_equal(exit_status(pid), 42);
    assert_int_equal(t.written, 0);
}

/* Deep enough to need most of the child's stack, which is not ours. */
static int deep(void *arg) {
    volatile char frame[1024];
    size_t left = (size_t)(uintptr_t)arg;

    frame[left % sizeof frame] = 1;
    return left ? deep((void *)(uintptr_t)(left - 1)) + frame[left % sizeof frame] - 1 : 7;
}

static void test_stack_is_large_enough(void **state) {
    pid_t pid = process_clone(deep, (void *)(uintptr_t)64, CLONE_VM | CLONE_VFORK, NULL);

    assert_int_equal(exit_status(pid), 7);
}

static void test_clone_that_cannot_work(void **state) {
    CLEANUP(closep) int no_cgroup = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int pidfd = -7;

    assert_int_equal(process_clone(tell, &(struct told){0}, CLONE_SIGHAND, &pidfd), -EINVAL); /* wants CLONE_VM */
    assert_int_equal(pidfd, -7);
    assert_int_equal(process_clone_into(tell, &(struct told){0}, 0, no_cgroup, &pidfd), -EBADF);
    assert_int_equal(pidfd, -7);
}

static const char *cgroup2_mount(void) {
    static const char *const places[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char path[64];

        snprintf(path, sizeof path, "%s/cgroup.controllers", places[i]);
        if (access(path, F_OK) == 0)
            return places[i];
    }
    return NULL;
}

static int tell_cgroup(void *arg) {
    struct told *t = arg;
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/self/cgroup", t->cgroup, sizeof t->cgroup);

    t->written = 1;
    return n > 0 ? 43 : 1;
}

/* A group of our own, made and removed here. */
static void check_born_in(const char *mount, unsigned long flags) {
    static struct told t;
    char name[64], path[128], line[80];
    int pidfd = -1;
    pid_t pid;

    t = (struct told){0};
    snprintf(name, sizeof name, "bawn-unit-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/%s", mount, name);
    snprintf(line, sizeof line, "0::/%s\n", name);
    assert_int_equal(mkdir(path, 0755), 0);
    {
        CLEANUP(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        pid = process_clone_into(tell_cgroup, &t, flags, fd, &pidfd);
    }
    if (pid > 0) {
        assert_int_equal(exit_status(pid), 43);
        assert_int_equal(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
        close(pidfd);
    }
    assert_int_equal(rmdir(path), 0);
    assert_true(pid > 0);
    assert_int_equal(t.written, flags & CLONE_VM ? 1 : 0);
    if ((flags & CLONE_VM) && !strstr(t.cgroup, line))
        fail_msg("'%s' is not in '%s'", line, t.cgroup);
}

static void test_born_in_a_cgroup(void **state) {
    const char *mount = cgroup2_mount();

    if (geteuid() != 0) {
        print_message("skip: needs root\n");
        skip();
    }
    if (!mount) {
        print_message("skip: needs a kernel with cgroup2\n");
        skip();
    }
    check_born_in(mount, CLONE_VM | CLONE_VFORK);
    check_born_in(mount, 0);
}

/* A second opinion: the 20th word after the last parenthesis. */
static uint64_t start_time_by_hand(pid_t pid) {
    char path[32], stat[2048], *p;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    assert_true(fd_read_file_at(AT_FDCWD, path, stat, sizeof stat) > 0);
    p = strrchr(stat, ')') + 1;
    for (int i = 0; i < 19; i++)
        p = strchr(p + 1, ' ');
    return strtoull(p, NULL, 10);
}

static void test_start_time(void **state) {
    uint64_t own = process_start_time(getpid());
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    assert_true(own > 0);
    assert_int_equal(own, start_time_by_hand(getpid()));
    assert_true(process_start_time(pid) >= own);
    assert_int_equal(process_start_time(pid), start_time_by_hand(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(process_start_time(pid), 0);
    assert_int_equal(process_start_time(0), 0);
    assert_int_equal(process_start_time(-1), 0);
    assert_int_equal(process_start_time(INT32_MAX), 0);
}

/* A killed process that nobody has reaped still has its number and its start time. */
static void test_death(void **state) {
    pid_t pid = fork();
    uint64_t start;

    if (pid == 0)
        for (;;)
            pause();
    start = process_start_time(pid);
    assert_false(process_is_dead(pid, start));
    assert_false(process_is_dead(pid, 0));
    assert_true(process_is_dead(pid, start + 1)); /* the number was given to somebody else */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_int_equal(process_start_time(pid), start);
    assert_true(process_is_dead(pid, start));
    assert_true(process_is_dead(pid, 0));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(process_is_dead(pid, start));
    assert_true(process_is_dead(pid, 0));
}

/* Who was seen alive is believed for a moment, and no longer; nobody else's word counts for another start time. */
static void test_leftover(void **state) {
    pid_t pid = fork();
    uint64_t start;

    if (pid == 0)
        for (;;)
            pause();
    start = process_start_time(pid);
    assert_true(process_is_leftover(pid, start + 1));
    assert_false(process_is_leftover(pid, start));
    process_end(pid);
    assert_true(process_is_dead(pid, start));
    assert_true(process_is_leftover(pid, start + 1));
    while (!process_is_leftover(pid, start))
        usleep(1000);
    assert_false(process_is_leftover(getpid(), process_start_time(getpid())));
    assert_true(process_is_leftover(getpid(), process_start_time(getpid()) + 1));
}

/* Ending is seen from the kill on, before the process is reaped; a living one and what is no pidfd are not ending. */
static void test_exiting(void **state) {
    int ready[2], pidfd;
    pid_t pid;
    char c;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    assert_true(pidfd >= 0);
    assert_false(process_is_exiting(pidfd));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_true(process_is_exiting(pidfd));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(process_is_exiting(pidfd));
    assert_false(process_is_exiting(ready[0]));
    assert_false(process_is_exiting(-1));
    close(pidfd);
    close(ready[0]);
    close(ready[1]);
}

/* A process chooses its own name, and so could choose its own start time. */
static void test_start_time_of_a_liar(void **state) {
    static const char *const names[] = {") R 1 2 3 4 5 6", "a) R 1", ")", "((((", "x ) (y", "\n) R 1 1 1 1", ""};
    char old[16];

    assert_int_equal(prctl(PR_GET_NAME, old), 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint64_t before = process_start_time(getpid());

        assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
        assert_int_equal(process_start_time(getpid()), before);
    }
    prctl(PR_SET_NAME, old);
}

enum { DEEP = 512 * 1024, PIECE = 8 * 1024, PIECES = 200, TEXT = 256 };

/* Of the mapping of that name. */
static long dirty_kib(const char *name) {
    FILE *f = fopen("/proc/self/smaps", "re");
    char line[TEXT];
    bool ours = false;
    long sum = 0, n;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            ours = strstr(line, name) != NULL;
        else if (ours && sscanf(line, "Private_Dirty: %ld", &n) == 1)
            sum += n;
    }
    fclose(f);
    return sum;
}

__attribute__((noinline)) static long use_stack(void) {
    volatile char room[DEEP];

    memset((void *)room, 7, sizeof room);
    return dirty_kib("[stack]");
}

static void test_stack_is_given_back(void **state UNUSED) {
    volatile char live[TEXT];
    long used = use_stack();

    memset((void *)live, 5, sizeof live);
    assert_true(CELL_SANITIZED || used >= DEEP / 1024); /* AddressSanitizer has a stack of its own for such things */
    process_give_memory_back();
    assert_true(CELL_SANITIZED || dirty_kib("[stack]") <= used - DEEP / 1024 + 64);
    for (size_t i = 0; i < sizeof live; i++)
        assert_int_equal(live[i], 5);
    assert_true(CELL_SANITIZED || use_stack() >= DEEP / 1024); /* and it can be used again */
}

static void test_heap_is_given_back(void **state UNUSED) {
    char *pieces[PIECES];
    long used;

    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = malloc(PIECE);
        assert_non_null(pieces[i]);
        memset(pieces[i], 1, PIECE);
    }
    used = dirty_kib("[heap]");
    for (size_t i = 0; i < PIECES - 1; i++) /* the last one is in the way of a smaller heap */
        free(pieces[i]);
    process_give_memory_back();
    assert_true(CELL_SANITIZED || used >= PIECES * PIECE / 1024);
    assert_true(CELL_SANITIZED || dirty_kib("[heap]") <= used - PIECES * PIECE / 1024 / 2);
    assert_int_equal(pieces[PIECES - 1][PIECE - 1], 1);
    free(pieces[PIECES - 1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_memory),
        cmocka_unit_test(test_copied_memory),
        cmocka_unit_test(test_stack_is_large_enough),
        cmocka_unit_test(test_clone_that_cannot_work),
        cmocka_unit_test(test_born_in_a_cgroup),
        cmocka_unit_test(test_start_time),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_leftover),
        cmocka_unit_test(test_exiting),
        cmocka_unit_test(test_start_time_of_a_liar),
        cmocka_unit_test(test_stack_is_given_back),
        cmocka_unit_test(test_heap_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
