/* SPDX-License-Identifier: Apache-2.0 */
/* A child enters the jail and tries; the same attempt is shown to work before. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "review/review_jail.h"

struct scene {
    char dir[32];
    int root;
};

static int begin(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    CLEANUP(closep) int fd = -1;

    snprintf(s->dir, sizeof s->dir, "/tmp/test_lock.XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    s->root = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = openat(s->root, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, "text", 4), 0);
    *state = s;
    return 0;
}

static int end(void **state) {
    static const char *const names[] = {"file", "made", "renamed", "linked"};
    struct scene *s = *state;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        unlinkat(s->root, names[i], 0);
    close(s->root);
    assert_int_equal(rmdir(s->dir), 0);
    free(s);
    return 0;
}

/* Each returns 0 if it could be done. */
static int reads_inside(int root) {
    CLEANUP(closep) int fd = safepath_open(root, "file", O_RDONLY);
    char text[8];

    return fd >= 0 && read(fd, text, sizeof text) == 4 ? 0 : -1;
}

static int reads_outside(int root UNUSED) {
    CLEANUP(closep) int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

    return fd >= 0 ? 0 : -1;
}

static int writes(int root) {
    CLEANUP(closep) int fd = openat(root, "file", O_WRONLY | O_CLOEXEC);

    return fd >= 0 ? 0 : -1;
}

static int truncates(int root) {
    CLEANUP(closep) int fd = openat(root, "file", O_RDONLY | O_TRUNC | O_CLOEXEC);

    return fd >= 0 ? 0 : -1;
}

static int creates(int root) {
    CLEANUP(closep) int fd = openat(root, "made", O_RDONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd >= 0 ? 0 : -1;
}

static int renames(int root) {
    return renameat(root, "file", root, "renamed") || renameat(root, "renamed", root, "file");
}

static int links(int root) {
    return linkat(root, "file", root, "linked", 0);
}

static int changes_mode(int root) {
    return fchmodat(root, "file", 0700, 0);
}

static int deletes(int root) {
    return creates(root) || unlinkat(root, "made", 0);
}

static int deletes_file(int root) {
    return unlinkat(root, "file", 0);
}

static int forks(int root UNUSED) {
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return pid < 0 || waitpid(pid, NULL, 0) < 0 ? -1 : 0;
}

static int executes(int root UNUSED) {
    char *argv[] = {"true", NULL};

    execv("/bin/true", argv);
    return -1;
}

static int makes_a_socket(int root UNUSED) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 ? 0 : -1;
}

static int signals_its_parent(int root UNUSED) {
    return kill(getppid(), 0);
}

/* True if it could be done; locked: from inside the jail. */
static bool attempt(const struct scene *s, int (*what)(int root), bool locked) {
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        struct err err = {0};

        if (locked && review_lock(&s->root, 1, (unsigned)s->root + 1, &err) < 0)
            _exit(99);
        _exit(what(s->root) == 0 ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 99);
    return WEXITSTATUS(status) == 0;
}

static void reading_below_the_root_works(void **state) {
    assert_true(attempt(*state, reads_inside, true));
}

static void nothing_else_works(void **state) {
    static int (*const attempts[])(int root) = {reads_outside, writes,  truncates, creates,  renames,        links,
                                                changes_mode,  deletes, forks,     executes, makes_a_socket, signals_its_parent};

    for (size_t i = 0; i < ARRAY_LEN(attempts); i++) {
        assert_false(attempt(*state, attempts[i], true));
        assert_true(attempt(*state, attempts[i], false));
        if (attempts[i] == links)
            assert_int_equal(unlinkat(((struct scene *)*state)->root, "linked", 0), 0);
        if (attempts[i] == creates)
            assert_int_equal(unlinkat(((struct scene *)*state)->root, "made", 0), 0);
    }
    assert_false(attempt(*state, deletes_file, true));
    assert_true(attempt(*state, deletes_file, false));
}

static void inherited_descriptors_are_closed(void **state) {
    struct scene *s = *state;
    struct err err = {0};
    int status = 0, extra = fcntl(s->root, F_DUPFD, s->root + 1);
    pid_t pid = fork();

    if (pid == 0)
        _exit(review_lock(&s->root, 1, (unsigned)s->root + 1, &err) == 0 && fcntl(extra, F_GETFD) < 0 && errno == EBADF ? 0 : 1);
    close(extra);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reading_below_the_root_works, begin, end),
        cmocka_unit_test_setup_teardown(nothing_else_works, begin, end),
        cmocka_unit_test_setup_teardown(inherited_descriptors_are_closed, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
