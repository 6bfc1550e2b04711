/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"

enum { NOBODY = 65534 };

struct scene {
    char path[32];
    int dir;
};

/* As an ordinary user, so that modes count. */
static int setup(void **state) {
    static struct scene s;

    s = (struct scene){"/tmp/bawn-test.XXXXXX", -1};
    if (!mkdtemp(s.path) || (geteuid() == 0 && chown(s.path, NOBODY, NOBODY) < 0))
        return -1;
    if (geteuid() == 0 && seteuid(NOBODY) < 0)
        return -1;
    s.dir = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &s;
    return s.dir < 0 ? -1 : 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    closep(&s->dir);
    if (getuid() == 0 && seteuid(0) < 0)
        return -1;
    return rmdir(s->path); /* fails if a test left something */
}

static void make_file(int dir, const char *name) {
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0400);

    assert_true(fd >= 0);
    close(fd);
}

static void test_all_kinds_and_modes(void **state) {
    const struct scene *s = *state;

    assert_int_equal(mkdirat(s->dir, "t", 0700), 0);
    assert_int_equal(mkdirat(s->dir, "t/work", 0700), 0);
    assert_int_equal(mkdirat(s->dir, "t/work/work", 0000), 0); /* as overlayfs leaves it */
    assert_int_equal(mkdirat(s->dir, "t/locked", 0700), 0);
    make_file(s->dir, "t/locked/file");
    assert_int_equal(mkfifoat(s->dir, "t/locked/fifo", 0600), 0);
    assert_int_equal(symlinkat("/etc", s->dir, "t/locked/link"), 0);
    assert_int_equal(mkdirat(s->dir, "t/locked/below", 0500), 0);
    assert_int_equal(fchmodat(s->dir, "t/locked", 0500, 0), 0);
    assert_int_equal(fchmodat(s->dir, "t", 0000, 0), 0);
    assert_int_equal(remove_tree(s->dir, "t"), 0);
    assert_int_equal(faccessat(s->dir, "t", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_links_are_not_followed(void **state) {
    const struct scene *s = *state;

    assert_int_equal(mkdirat(s->dir, "outside", 0700), 0);
    make_file(s->dir, "outside/kept");
    assert_int_equal(mkdirat(s->dir, "t", 0700), 0);
    assert_int_equal(symlinkat("../outside", s->dir, "t/way-out"), 0);
    assert_int_equal(symlinkat("outside", s->dir, "link"), 0);
    assert_int_equal(remove_tree(s->dir, "t"), 0);
    assert_in_set(remove_tree(s->dir, "link"),
                  ((LargestIntegralType[]){(LargestIntegralType)-ELOOP, (LargestIntegralType)-ENOTDIR}), 2);
    assert_int_equal(faccessat(s->dir, "outside/kept", F_OK, 0), 0);
    assert_int_equal(unlinkat(s->dir, "link", 0), 0);
    assert_int_equal(remove_tree(s->dir, "outside"), 0);
}

/* Deeper than descriptors reach, longer than PATH_MAX, with folders that are in the way of what is moved up. */
static void test_depth(void **state) {
    const struct scene *s = *state;
    int dir, next;

    assert_int_equal(mkdirat(s->dir, "t", 0700), 0);
    dir = openat(s->dir, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 40; i++) {
        CLEANUP(freep) char *name = str_dupf(".bawn-moved-%d", i);
        CLEANUP(freep) char *below = str_dupf(".bawn-moved-%d/x", i);

        assert_int_equal(mkdirat(dir, name, 0700), 0);
        make_file(dir, below);
    }
    for (int i = 0; i < 2000; i++) {
        make_file(dir, "f");
        assert_int_equal(mkdirat(dir, "deep", 0700), 0);
        next = openat(dir, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        if (i % 50 == 0)
            assert_int_equal(fchmod(dir, 0500), 0);
        close(dir);
        dir = next;
    }
    close(dir);
    assert_int_equal(remove_tree(s->dir, "t"), 0);
    assert_int_equal(faccessat(s->dir, "t", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_what_is_not_there(void **state) {
    const struct scene *s = *state;

    assert_int_equal(remove_tree(s->dir, "none"), -ENOENT);
    make_file(s->dir, "file");
    assert_int_equal(remove_tree(s->dir, "file"), -ENOTDIR);
    assert_int_equal(unlinkat(s->dir, "file", 0), 0);
}

/* Nothing can be removed there, by nobody. */
static void test_failure_is_told(void **state UNUSED) {
    CLEANUP(closep) int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    int r = remove_tree(proc, "fdinfo");

    assert_true(r == -EACCES || r == -EPERM);
}

/* What belongs to somebody else stays, and does not keep the rest from going. */
static void test_the_rest_goes(void **state) {
    const struct scene *s = *state;
    bool root = getuid() == 0; /* else there is nobody else */

    assert_int_equal(mkdirat(s->dir, "t", 0700), 0);
    make_file(s->dir, "t/a");
    make_file(s->dir, "t/z");
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(mkdirat(s->dir, "t/m", 0700), 0);
    make_file(s->dir, "t/m/f");
    assert_true(!root || seteuid(NOBODY) == 0);
    assert_int_equal(remove_tree(s->dir, "t"), root ? -EACCES : 0);
    assert_int_equal(faccessat(s->dir, "t/a", F_OK, 0), -1);
    assert_int_equal(faccessat(s->dir, "t/z", F_OK, 0), -1);
    assert_true(!root || seteuid(0) == 0);
    assert_int_equal(remove_tree(s->dir, "t"), root ? 0 : -ENOENT);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_all_kinds_and_modes), CASE(test_links_are_not_followed), CASE(test_depth),
        CASE(test_what_is_not_there),   CASE(test_failure_is_told),        CASE(test_the_rest_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
