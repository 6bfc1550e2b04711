/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "os/remove.h"
#include "workspace/hide/protect.h"

struct scene {
    char path[64];
    int root;
};

static int setup(void **state) {
    static struct scene s;

    s = (struct scene){.path = "/tmp/bawn-links.XXXXXX"};
    if (!mkdtemp(s.path))
        return -1;
    s.root = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &s;
    return s.root < 0 ? -1 : 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    close(s->root);
    return remove_tree(AT_FDCWD, s->path);
}

static void make(const struct scene *s, const char *link, const char *target) {
    assert_int_equal(symlinkat(target, s->root, link), 0);
}

static void add(void *arg, const char *place, bool is_link) {
    buf_addf(arg, "%s%s ", place, is_link ? "@" : "");
}

static void leads(const struct scene *s, const char *path, const char *want) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(65536);

    assert_int_equal(protect_follow(s->root, s->path, path, add, &b), 0);
    assert_string_equal(buf_str(&b), want);
}

static void paths_that_are_no_links(void **state) {
    const struct scene *s = *state;

    assert_int_equal(mkdirat(s->root, "a", 0700), 0);
    leads(s, "a", "a ");
    leads(s, "a/b/c", "a/b/c ");
    leads(s, "nothing/at/all", "nothing/at/all ");
    leads(s, "./a/../x//y/", "x/y ");
}

static void links_to_nothing(void **state) {
    const struct scene *s = *state;

    assert_int_equal(mkdirat(s->root, ".git", 0700), 0);
    make(s, ".git/hooks", "../.githooks");
    leads(s, ".git/hooks", ".git/hooks@ .githooks ");
    leads(s, ".git/hooks/pre-commit", ".git/hooks@ .githooks/pre-commit ");
}

static void chains(void **state) {
    const struct scene *s = *state;
    char target[128];

    make(s, "zero", "one");
    make(s, "one", "two/three");
    make(s, "two", "four");
    leads(s, "zero/x", "zero@ one@ two@ four/three/x ");
    snprintf(target, sizeof target, "%s/inside", s->path);
    make(s, "absolute", target);
    leads(s, "absolute", "absolute@ inside ");
    snprintf(target, sizeof target, "..%s/inside", strrchr(s->path, '/'));
    make(s, "back", target);
    leads(s, "back", "back@ inside ");
}

static void ways_out(void **state) {
    const struct scene *s = *state;

    make(s, "out", "/nowhere/at/all");
    make(s, "up", "..");
    make(s, "self", ".");
    make(s, "loop", "loop");
    leads(s, "out", "out@ ");
    leads(s, "up/elsewhere", "up@ ");
    leads(s, "self", "self@ ");
    leads(s, "self/x", "self@ x ");
    leads(s, "/", "");
}

static void a_loop_ends(void **state) {
    const struct scene *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(65536);

    make(s, "loop", "loop");
    assert_int_equal(protect_follow(s->root, s->path, "loop", add, &b), 0);
    assert_true(b.len < 1000);
}

static void too_long(void **state) {
    const struct scene *s = *state;
    CLEANUP(buf_done) struct buf b = BUF_INIT(65536);
    char path[PATH_MAX + 2];

    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(protect_follow(s->root, s->path, path, add, &b), -ENAMETOOLONG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(paths_that_are_no_links, setup, teardown),
        cmocka_unit_test_setup_teardown(links_to_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(chains, setup, teardown),
        cmocka_unit_test_setup_teardown(ways_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loop_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(too_long, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
