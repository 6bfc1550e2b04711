/* SPDX-License-Identifier: Apache-2.0 */
#include "syncing.h"

#include <sys/xattr.h>

#include "base/str.h"

static bool hold_hooks(const struct change *c, UNUSED void *arg) {
    return str_starts(c->path, "hooks/");
}

static void test_copy_is_like_the_workspace(void **state) {
    struct sides *s = *state;
    const struct timespec times[2] = {{.tv_sec = 7}, {.tv_sec = 8, .tv_nsec = 9}};
    CLEANUP(strv_done) struct strv notes = {0};
    struct stat a, b;
    int fd;

    sides_mkdir(s, "host/d");
    sides_mkdir(s, "host/secret");
    sides_write(s, "host/secret/key", "k");
    sides_write(s, "host/d/secret", "k");
    sides_write(s, "host/d/f", "text");
    sides_write(s, "host/\x1b[2J\xff", "odd");
    assert_int_equal(linkat(s->host, "d/f", s->host, "hard", 0), 0);
    assert_int_equal(symlinkat("/etc/passwd", s->host, "l"), 0);
    assert_int_equal(mkfifoat(s->host, "fifo\x1b", 0644), 0);
    assert_int_equal(fchmodat(s->host, "d/f", 06751, 0), 0);
    assert_int_equal(utimensat(s->host, "d/f", times, 0), 0);
    fd = openat(s->host, "d/f", O_RDONLY | O_CLOEXEC);
    fsetxattr(fd, "user.note", "hi", 2, 0);
    close(fd);
    assert_int_equal(fchmodat(s->host, "d", 0555, 0), 0);
    assert_int_equal(copy_in_by(s, "secret\n", NULL, &notes, NULL), 0);
    sides_expect(s, "run/tree/d/f", "text");
    sides_expect(s, "run/tree/\x1b[2J\xff", "odd");
    sides_expect_link(s, "run/tree/l", "/etc/passwd");
    assert_false(sides_has(s, "run/tree/secret"));
    assert_false(sides_has(s, "run/tree/d/secret"));
    assert_false(sides_has(s, "run/tree/fifo\x1b"));
    assert_int_equal(notes.len, 1);
    assert_string_equal(notes.v[0], "fifo\\x1b: is a device, FIFO or socket; it is left out");
    a = sides_stat(s, "run/tree/d/f");
    b = sides_stat(s, "run/tree/hard");
    assert_int_equal(a.st_mode, S_IFREG | 0751);
    assert_int_equal(a.st_mtim.tv_sec, 8);
    assert_int_equal(a.st_mtim.tv_nsec, 9);
    assert_true(a.st_ino != b.st_ino && a.st_nlink == 1);
    assert_int_equal(sides_stat(s, "run/tree/d").st_mode, S_IFDIR | 0555);
    fd = openat(s->run, "tree/d/f", O_RDONLY | O_CLOEXEC);
    assert_int_equal(fgetxattr(fd, "user.note", NULL, 0), 2);
    close(fd);
    both(s, 0, 0, 0);
}

static void count_up(uint64_t files, uint64_t bytes, uint64_t total, void *arg) {
    uint64_t *last = arg;

    assert_true(files > last[0] && bytes >= last[1] && files <= total);
    last[0] = files;
    last[1] = bytes;
    last[2] = total;
}

static void test_progress_ends_at_the_total(void **state) {
    struct sides *s = *state;
    uint64_t last[3] = {0};
    const struct progress p = {.report = count_up, .arg = last};
    char path[32];

    for (int i = 0; i < 130; i++) {
        snprintf(path, sizeof path, "host/f%d", i);
        sides_write(s, path, "12345");
    }
    assert_int_equal(copy_in_by(s, "", &p, NULL, NULL), 0);
    assert_int_equal(last[0], 130);
    assert_int_equal(last[1], 130 * 5);
    assert_int_equal(last[2], 130);
}

static void test_copy_that_was_cut_off_goes_on(void **state) {
    struct sides *s = *state;
    const struct timespec times[2] = {{.tv_sec = 7}, {.tv_sec = 8}};
    struct stat before;

    sides_write(s, "host/whole", "whole");
    sides_write(s, "host/half", "both halves");
    assert_int_equal(utimensat(s->host, "whole", times, 0), 0);
    copy_in(s, "");
    /* as a crash leaves it: no manifest, a file without its time, and something that the workspace no longer has */
    assert_int_equal(unlinkat(s->run, "manifest", 0), 0);
    sides_write(s, "run/tree/half", "both ");
    sides_mkdir(s, "run/tree/gone");
    sides_write(s, "run/tree/gone/f", "x");
    before = sides_stat(s, "run/tree/whole");
    copy_in(s, "");
    assert_int_equal(sides_stat(s, "run/tree/whole").st_ino, before.st_ino);
    sides_expect(s, "run/tree/half", "both halves");
    assert_false(sides_has(s, "run/tree/gone"));
    both(s, 0, 0, 0);
    assert_false(sides_has(s, "host/gone"));
}

static void test_what_cannot_be_read_is_named(void **state) {
    struct sides *s = *state;
    struct err err = {0};
    int r;

    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/f", "x");
    assert_int_equal(fchmodat(s->host, "d/f", 0, 0), 0);
    r = copy_in_by(s, "", NULL, NULL, &err);
    assert_int_equal(r, geteuid() == 0 ? 0 : -EACCES);
    if (r < 0) {
        assert_string_equal(err.msg, "'d/f' cannot be read; make it readable, or hide it in .sandboxignore");
        assert_false(sides_has(s, "run/manifest"));
        assert_int_equal(copy_in_by(s, "d/f\n", NULL, NULL, NULL), 0);
    }
}

static void test_changes_go_both_ways(void **state) {
    struct sides *s = *state;

    sides_mkdir(s, "host/d");
    sides_write(s, "host/a", "a");
    sides_write(s, "host/b", "b");
    sides_write(s, "host/d/c", "c");
    copy_in(s, "secret\n");
    sides_write(s, "run/tree/a", "from the sandbox");
    sides_write(s, "host/b", "from the host");
    sides_mkdir(s, "run/tree/new");
    sides_write(s, "run/tree/new/n", "n");
    assert_int_equal(symlinkat("a", s->run, "tree/l"), 0);
    sides_mkdir(s, "host/made");
    sides_write(s, "host/made/m", "m");
    assert_int_equal(fchmodat(s->run, "tree/d/c", 0755, 0), 0);
    both(s, 4, 2, 0);
    sides_expect(s, "host/a", "from the sandbox");
    sides_expect(s, "run/tree/b", "from the host");
    sides_expect(s, "host/new/n", "n");
    sides_expect_link(s, "host/l", "a");
    sides_expect(s, "run/tree/made/m", "m");
    assert_int_equal(sides_stat(s, "host/d/c").st_mode, S_IFREG | 0755);
    both(s, 0, 0, 0);
}

static void test_deletions_go_both_ways(void **state) {
    struct sides *s = *state;

    sides_mkdir(s, "host/x");
    sides_mkdir(s, "host/x/y");
    sides_write(s, "host/x/y/f", "f");
    sides_write(s, "host/h", "h");
    sides_mkdir(s, "host/keep");
    sides_write(s, "host/keep/secret", "stays");
    copy_in(s, "secret\n");
    assert_int_equal(unlinkat(s->run, "tree/x/y/f", 0), 0);
    assert_int_equal(unlinkat(s->run, "tree/x/y", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(s->run, "tree/x", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(s->run, "tree/keep", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(s->host, "h", 0), 0);
    both(s, 1, 1, 0);
    assert_false(sides_has(s, "host/x"));
    assert_false(sides_has(s, "run/tree/h"));
    sides_expect(s, "host/keep/secret", "stays");
    both(s, 0, 0, 0);
    sides_expect(s, "host/keep/secret", "stays");
}

static void test_deleting_never_wins(void **state) {
    struct sides *s = *state;

    sides_mkdir(s, "host/d");
    sides_mkdir(s, "host/e");
    sides_write(s, "host/d/f", "1");
    sides_write(s, "host/e/f", "1");
    copy_in(s, "");
    assert_int_equal(unlinkat(s->run, "tree/d/f", 0), 0);
    assert_int_equal(unlinkat(s->run, "tree/d", AT_REMOVEDIR), 0);
    sides_write(s, "host/d/f", "changed on the host");
    assert_int_equal(unlinkat(s->host, "e/f", 0), 0);
    assert_int_equal(unlinkat(s->host, "e", AT_REMOVEDIR), 0);
    sides_write(s, "run/tree/e/f", "changed inside");
    both(s, 1, 1, 0);
    sides_expect(s, "run/tree/d/f", "changed on the host");
    sides_expect(s, "host/d/f", "changed on the host");
    sides_expect(s, "host/e/f", "changed inside");
    sides_expect(s, "run/tree/e/f", "changed inside");
    both(s, 0, 0, 0);
}

static void test_conflict_keeps_both(void **state) {
    struct sides *s = *state;
    CLEANUP(sync_result_done) struct sync_result r = {0};

    sides_write(s, "host/f", "base");
    sides_write(s, "host/same", "base");
    sides_write(s, "host/f.bawn-demo", "mine already");
    copy_in(s, "");
    sides_write(s, "host/f", "host's");
    sides_write(s, "run/tree/f", "sandbox's");
    sides_write(s, "host/same", "equal");
    sides_write(s, "run/tree/same", "equal");
    both_by(s, "", NULL, &r);
    assert_int_equal(r.conflicts.len, 1);
    assert_string_equal(r.conflicts.v[0], "f: the host's version stays, the sandbox's is f.bawn-demo-2");
    sides_expect(s, "host/f", "host's");
    sides_expect(s, "host/f.bawn-demo", "mine already");
    sides_expect(s, "host/f.bawn-demo-2", "sandbox's");
    sides_expect(s, "run/tree/f", "host's");
    sides_expect(s, "run/tree/f.bawn-demo-2", "sandbox's");
    both(s, 0, 0, 0);
}

static void test_conflict_that_was_cut_off_is_not_doubled(void **state) {
    struct sides *s = *state;
    char name[256];

    memset(name, 'n', 255);
    name[255] = 0;
    sides_write(s, "host/f", "base");
    copy_in(s, "");
    sides_write(s, "host/f", "host's");
    sides_write(s, "run/tree/f", "sandbox's");
    sides_write(s, "host/f.bawn-demo", "sandbox's"); /* a sync was killed right after this */
    both(s, 0, 1, 1);
    assert_false(sides_has(s, "host/f.bawn-demo-2"));
    /* a name that is as long as names can be */
    assert_true(openat(s->host, name, O_CREAT | O_CLOEXEC | O_WRONLY, 0644) >= 0);
    {
        CLEANUP(closep) int fd = openat(s->run, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        CLEANUP(closep) int f = openat(fd, name, O_CREAT | O_CLOEXEC | O_WRONLY, 0644);

        assert_int_equal(fd_write_all(f, "x", 1), 0);
    }
    both(s, 0, 1, 1);
    memcpy(name + 255 - strlen(".bawn-demo"), ".bawn-demo", strlen(".bawn-demo"));
    assert_int_equal(faccessat(s->host, name, F_OK, 0), 0);
}

static void test_held_changes_wait(void **state) {
    struct sides *s = *state;

    sides_mkdir(s, "host/hooks");
    sides_write(s, "host/hooks/old", "old");
    copy_in(s, "");
    sides_write(s, "run/tree/hooks/new", "evil");
    assert_int_equal(unlinkat(s->run, "tree/hooks/old", 0), 0);
    sides_write(s, "run/tree/f", "fine");
    for (int i = 0; i < 2; i++) { /* also the second time */
        CLEANUP(sync_result_done) struct sync_result r = {0};

        both_by(s, "", hold_hooks, &r);
        assert_int_equal(r.held.len, 2);
        assert_string_equal(r.held.v[0], "hooks/new");
        assert_string_equal(r.held.v[1], "hooks/old");
        assert_int_equal(r.out, i == 0);
        assert_false(sides_has(s, "host/hooks/new"));
        sides_expect(s, "host/hooks/old", "old");
        sides_expect(s, "run/tree/hooks/new", "evil");
    }
    copy_in(s, "");
    sides_expect(s, "run/tree/hooks/new", "evil");
    assert_false(sides_has(s, "run/tree/hooks/old"));
    both(s, 2, 0, 0);
    sides_expect(s, "host/hooks/new", "evil");
    assert_false(sides_has(s, "host/hooks/old"));
}

static void test_types_change(void **state) {
    struct sides *s = *state;

    sides_write(s, "host/f", "file");
    sides_mkdir(s, "host/d");
    sides_write(s, "host/d/x", "x");
    sides_mkdir(s, "host/e");
    copy_in(s, "");
    assert_int_equal(unlinkat(s->run, "tree/f", 0), 0);
    sides_mkdir(s, "run/tree/f");
    sides_write(s, "run/tree/f/in", "in");
    assert_int_equal(unlinkat(s->run, "tree/d/x", 0), 0);
    assert_int_equal(unlinkat(s->run, "tree/d", AT_REMOVEDIR), 0);
    sides_write(s, "run/tree/d", "now a file");
    assert_int_equal(unlinkat(s->host, "e", AT_REMOVEDIR), 0);
    assert_int_equal(symlinkat("nowhere", s->host, "e"), 0);
    both(s, 4, 1, 0);
    sides_expect(s, "host/f/in", "in");
    sides_expect(s, "host/d", "now a file");
    sides_expect_link(s, "run/tree/e", "nowhere");
    both(s, 0, 0, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, sides_setup, sides_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_copy_is_like_the_workspace),
        TEST(test_progress_ends_at_the_total),
        TEST(test_copy_that_was_cut_off_goes_on),
        TEST(test_what_cannot_be_read_is_named),
        TEST(test_changes_go_both_ways),
        TEST(test_deletions_go_both_ways),
        TEST(test_deleting_never_wins),
        TEST(test_conflict_keeps_both),
        TEST(test_conflict_that_was_cut_off_is_not_doubled),
        TEST(test_held_changes_wait),
        TEST(test_types_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
