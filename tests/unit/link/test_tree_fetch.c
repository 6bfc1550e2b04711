/* SPDX-License-Identifier: Apache-2.0 */
/* What the receiver of a sandbox's files cannot do once it is locked in; each attempt works without the lock. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "jail/fence/landlock.h"
#include "link/tree_fetch.h"

static int done(long r) {
    return r < 0 ? errno : 0;
}

static int read_elsewhere(UNUSED int folder) {
    return done(open("/etc/passwd", O_RDONLY | O_CLOEXEC));
}

static int write_elsewhere(UNUSED int folder) {
    return done(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

static int leave(int folder) {
    return done(openat(folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

static int connect_out(UNUSED int folder) {
    return done(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int start_process(UNUSED int folder) {
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return done(pid);
}

static int signal_parent(UNUSED int folder) {
    return done(kill(getppid(), 0));
}

static int start_program(UNUSED int folder) {
    char *const argv[] = {"true", NULL};

    return done(execve("/bin/true", argv, argv + 1));
}

static int make_file(int folder) {
    return done(openat(folder, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static const struct attempt {
    const char *name;
    int (*try_)(int folder);
    bool works, needs_landlock;
} attempts[] = {
    {"make a file in the folder", make_file, .works = true},
    {"read another file", read_elsewhere, .needs_landlock = true},
    {"write another file", write_elsewhere, .needs_landlock = true},
    {"leave the folder", leave, .needs_landlock = true},
    {"make a socket", connect_out},
    {"start a process", start_process},
    {"signal the parent", signal_parent},
    {"start a program", start_program},
};

/* 0: it worked. */
static int outcome(const struct attempt *a, int folder, bool locked) {
    struct err err = {0};
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        if (locked && tree_cell_lock(&folder, 1, &err) < 0)
            _exit(255);
        _exit(a->try_(folder));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_not_equal(WEXITSTATUS(status), 255);
    return status;
}

static void test_attempts(UNUSED void **state) {
    char path[] = "/tmp/bawn-test-XXXXXX";
    int folder;

    assert_non_null(mkdtemp(path));
    folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
        const struct attempt *a = &attempts[i];
        int locked = outcome(a, folder, true);

        print_message("# %s: %#x\n", a->name, locked);
        assert_int_equal(outcome(a, folder, false), 0);
        if (!a->needs_landlock || landlock_abi() > 0)
            assert_int_equal(locked == 0, a->works);
    }
    unlinkat(folder, "f", 0);
    close(folder);
    rmdir(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attempts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
