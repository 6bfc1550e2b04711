/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "os/spawn.h"

#define SH(script)                                         \
    (char *[]) {                                           \
        (char *)"sh", (char *)"-c", (char *)(script), NULL \
    }

static int run(const char *script) {
    const struct spawn s = {.path = "/bin/sh", .argv = SH(script)};

    return process_exit_status(spawn_run(&s));
}

static void test_status(void **state) {
    const struct spawn none = {.path = "/no/such/program", .argv = SH("")};
    const struct spawn folder = {.path = "/", .argv = SH("")};

    (void)state;
    assert_int_equal(run("exit 0"), 0);
    assert_int_equal(run("exit 7"), 7);
    assert_int_equal(run("for i in 0 1 2; do [ /proc/$$/fd/$i -ef /dev/null ] || exit 1; done"), 0);
    assert_int_equal(run("kill -TERM $$"), PROCESS_SIGNALLED + SIGTERM);
    assert_int_equal(spawn_run(&none), -ENOENT);
    assert_int_equal(spawn_run(&folder), -EACCES);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void check(const struct spawn *s, const char *want) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(10000), said = BUF_INIT(100);

    assert_int_equal(spawn_collect(s, &out, &said), 0);
    assert_string_equal(buf_str(&said), "");
    assert_string_equal(buf_str(&out), want);
}

/* Nothing comes along that was not asked for. */
static void test_strict(void **state) {
    CLEANUP(closep) int stray = open("/dev/null", O_RDONLY);
    struct spawn s = {.path = "/bin/sh"};

    (void)state;
    assert_true(stray >= 0);
    setenv("BAWN_STRAY", "1", 1);
    s.argv = SH("echo \"${BAWN_STRAY-none}\"");
    check(&s, "none\n");
    s.argv = SH("pwd");
    check(&s, "/\n");
    s.argv = SH("cat; echo /proc/self/fd/*; readlink /proc/self/fd/0");
    check(&s, "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n/dev/null\n"); /* 3: echo's own look */
}

static void test_search(void **state) {
    const struct spawn s = {.path = "sh", .search = true, .argv = SH("echo $A"), .envp = (char *[]){(char *)"A=b", NULL}};
    const struct spawn plain = {.path = "sh", .argv = SH("")};

    (void)state;
    check(&s, "b\n");
    assert_int_equal(spawn_run(&plain), -ENOENT);
}

static void test_exe(void **state) {
    struct spawn s = {.argv = SH("echo hello")};

    (void)state;
    s.exe = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    assert_true(s.exe > 0);
    check(&s, "hello\n");
    close(s.exe);
}

static int pipe_with(const char *text) {
    int in, out;

    assert_int_equal(fd_pipe(&in, &out), 0);
    assert_int_equal(fd_write_all(out, text, strlen(text)), 0);
    close(out);
    return in;
}

/* Numbers that cross each other: 3 is wanted at 4 and 4 at 3. */
static void test_fds(void **state) {
    int a = pipe_with("a"), b = pipe_with("b"), low = MIN_OF(a, b), high = MAX_OF(a, b);
    int fds[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    char script[100];
    struct spawn s = {.path = "/bin/sh", .fds = fds, .n_fds = 8};

    (void)state;
    assert_true(high < 8);
    fds[low] = high;
    fds[high] = low;
    snprintf(script, sizeof script, "cat <&%d; cat <&%d", a, b);
    s.argv = SH(script);
    check(&s, "ba");
    close(a);
    close(b);
}

static void test_cwd(void **state) {
    char here[] = "/tmp/bawn-spawn-XXXXXX", want[64], before[4096];
    struct spawn s = {.path = "/bin/sh", .argv = SH("pwd -P")};

    (void)state;
    assert_non_null(mkdtemp(here));
    s.cwd = open(here, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(want, sizeof want, "%s\n", here);
    check(&s, want);
    close(s.cwd);
    s.cwd = SPAWN_CWD_STAY;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(here), 0);
    check(&s, want);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(here), 0);
}

/* pgrp and session are fields 5 and 6 of stat. */
static void test_group(void **state) {
    static const char script[] = "read -r pid name st parent group session rest </proc/$$/stat; "
                                 "[ $pid = $group ] && echo group; [ $pid = $session ] && echo session; true";
    struct spawn s = {.path = "/bin/sh", .argv = SH(script)};

    (void)state;
    check(&s, "group\n");
    s.group = SPAWN_SESSION;
    check(&s, "group\nsession\n");
    s.group = SPAWN_TERMINAL;
    check(&s, "");
}

static void test_signals(void **state) {
    static const char script[] = "while read -r k v; do case $k in SigBlk:|SigIgn:) echo $k $v;; esac; done </proc/$$/status";
    static const int some[] = {SIGUSR1};
    struct spawn s = {.path = "/bin/sh", .argv = SH(script)};
    sigset_t old, mask;
    int fd;

    (void)state;
    sigfd_default(NULL); /* whatever started the test may ignore some */
    fd = sigfd_open(some, 1, &old);
    signal(SIGPIPE, SIG_IGN);
    check(&s, "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\n");
    s.same_signals = true;
    check(&s, "SigBlk: 0000000000000200\nSigIgn: 0000000000001000\n");
    s.same_signals = false;
    sigemptyset(&mask);
    sigaddset(&mask, SIGHUP);
    s.mask = &mask;
    check(&s, "SigBlk: 0000000000000001\nSigIgn: 0000000000000000\n");
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(fd);
}

static int refuse(void *arg) {
    *(int *)arg += 1;
    return -EDOM;
}

static void test_before(void **state) {
    int calls = 0;
    const struct spawn s = {.path = "/bin/sh", .argv = SH(""), .before = refuse, .arg = &calls};

    (void)state;
    assert_int_equal(spawn_run(&s), -EDOM);
    assert_int_equal(calls, 1);
}

/* The child's failure is reported, and what it did to its memory is not seen here. */
static void test_own_memory(void **state) {
    int calls = 0;
    const struct spawn s = {.path = "/bin/sh", .argv = SH(""), .before = refuse, .arg = &calls, .own_memory = true};
    const struct spawn good = {.path = "/bin/sh", .argv = SH("exit 7"), .own_memory = true};

    (void)state;
    assert_int_equal(spawn_run(&s), -EDOM);
    assert_int_equal(calls, 0);
    assert_int_equal(process_exit_status(spawn_run(&good)), 7);
}

static void test_collect(void **state) {
    const struct spawn s = {.path = "/bin/sh", .argv = SH("echo answer; echo words >&2; exit 3")};
    const struct spawn flood = {.path = "/bin/sh", .argv = SH("while :; do echo yes; done")};
    const struct spawn talk = {.path = "/bin/sh", .argv = SH("for i in 1 2 3 4 5; do echo 12345678 >&2; done")};
    CLEANUP(buf_done) struct buf out = BUF_INIT(100), said = BUF_INIT(12), none = BUF_INIT(100);

    (void)state;
    assert_int_equal(process_exit_status(spawn_collect(&s, &out, &said)), 3);
    assert_string_equal(buf_str(&out), "answer\n");
    assert_string_equal(buf_str(&said), "words\n");
    assert_int_equal(spawn_collect(&flood, &out, NULL), -EFBIG);
    buf_clear(&said);
    assert_int_equal(spawn_collect(&talk, NULL, &said), 0);
    assert_string_equal(buf_str(&said), "12345678\n123");
    assert_int_equal(spawn_collect(&talk, &none, NULL), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_pidfd(void **state) {
    const struct spawn s = {.path = "/bin/sh", .argv = SH("exit 0"), .outlives = true};
    struct pollfd p = {.fd = -1, .events = POLLIN};
    pid_t pid;

    (void)state;
    assert_int_equal(spawn_start(&s, &pid, &p.fd), 0);
    assert_int_equal(poll(&p, 1, -1), 1);
    assert_int_equal(process_wait(pid), 0);
    assert_int_equal(process_wait(pid), -ECHILD);
    closep(&p.fd);
}

/* The process in the middle is killed. What it started ends with it, unless it may outlive it: then it answers. */
static void test_dies_with_us(void **state) {
    (void)state;
    for (int outlives = 0; outlives < 2; outlives++) {
        CLEANUP(closep) int in = -1, out = -1, question = -1, ask = -1;
        char c;
        pid_t pid;

        assert_int_equal(fd_pipe(&in, &out), 0);
        assert_int_equal(fd_pipe(&question, &ask), 0);
        pid = fork();
        if (pid == 0) {
            const int fds[] = {question, out, -1};
            const struct spawn s = {
                .path = "/bin/sh", .argv = SH("read -r word && echo x"), .fds = fds, .n_fds = 3, .outlives = outlives};
            pid_t child;

            _exit(spawn_start(&s, &child, NULL) < 0 || kill(getpid(), SIGKILL) < 0);
        }
        closep(&out);
        process_wait(pid);
        if (outlives)
            assert_int_equal(fd_write_all(ask, "go\n", 3), 0);
        assert_int_equal(fd_read_some(in, &c, 1), outlives);
    }
}

static void test_sigfd(void **state) {
    static const int some[] = {SIGUSR1, SIGUSR2};
    struct signalfd_siginfo info;
    sigset_t old;
    int fd = sigfd_open(some, ARRAY_LEN(some), &old);

    (void)state;
    assert_true(fd >= 0);
    assert_false(sigfd_next(fd, &info));
    kill(getpid(), SIGUSR2);
    assert_true(sigfd_next(fd, &info));
    assert_int_equal(info.ssi_signo, SIGUSR2);
    assert_false(sigfd_next(fd, &info));
    sigprocmask(SIG_SETMASK, &old, NULL);
    close(fd);
}

/* One that hangs is ended; so it is when a signal waits that asks us to end, but only for those who say so. */
static void test_collect_limit(void **state) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(100);
    const struct spawn hangs = {.path = "/bin/sh", .argv = SH("exec sleep 600"), .limit_ms = 50};
    const struct spawn heeds = {.path = "/bin/sh", .argv = SH("exec sleep 600"), .limit_ms = 600000, .heeds_end = true};
    const struct spawn answers = {.path = "/bin/sh", .argv = SH("echo yes"), .limit_ms = 600000};
    sigset_t term, old;
    int sig;

    (void)state;
    assert_int_equal(spawn_collect(&hangs, &out, NULL), -ETIMEDOUT);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &old);
    raise(SIGTERM);
    assert_int_equal(spawn_collect(&heeds, &out, NULL), -EINTR);
    assert_int_equal(spawn_collect(&answers, &out, NULL), 0);
    assert_string_equal(buf_str(&out), "yes\n");
    assert_int_equal(sigwait(&term, &sig), 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),     cmocka_unit_test(test_strict),       cmocka_unit_test(test_search),
        cmocka_unit_test(test_exe),        cmocka_unit_test(test_fds),          cmocka_unit_test(test_cwd),
        cmocka_unit_test(test_group),      cmocka_unit_test(test_signals),      cmocka_unit_test(test_before),
        cmocka_unit_test(test_own_memory), cmocka_unit_test(test_collect),      cmocka_unit_test(test_collect_limit),
        cmocka_unit_test(test_pidfd),      cmocka_unit_test(test_dies_with_us), cmocka_unit_test(test_sigfd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
