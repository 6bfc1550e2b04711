/* SPDX-License-Identifier: Apache-2.0 */
#include "sides.h"

#include <sys/sysmacros.h>

#include "base/str.h"
#include "workspace/copy/transfer.h"

static int setup(void **state) {
    int r = sides_setup(state);
    struct sides *s = *state;

    return r < 0 ? r : mkdirat(s->run, "tree", 0755);
}

static int source(const struct sides *s) {
    return openat(s->top_fd, "run/tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int copy_out(const struct sides *s, struct transfer *t, struct err *err) {
    CLEANUP(closep) int from = source(s);

    t->out = true;
    return transfer_tree(t, from, s->host, err);
}

static bool is_noted(const struct transfer *t, const char *begin) {
    for (size_t i = 0; i < t->notes.len; i++)
        if (str_starts(t->notes.v[i], begin))
            return true;
    return false;
}

static void test_links_that_stay_and_that_do_not(void **state UNUSED) {
    static const struct {
        const char *target;
        unsigned depth;
        bool stays;
    } table[] = {
        {"a", 0, true},         {"a/b", 0, true},    {"./a", 0, true},      {"../a", 1, true},    {"..", 1, true},
        {"../..", 2, true},     {"./../a", 1, true}, {"..", 0, false},      {"../a", 0, false},   {"../../a", 1, false},
        {"/etc", 0, false},     {"/", 5, false},     {"", 3, false},        {"a/../b", 3, false}, {"a/..", 1, false},
        {"..a/b", 0, true},     {"...", 0, true},    {"../a/..", 4, false}, {"a/...", 0, true},   {".//..//x", 1, true},
        {".//..//x", 0, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (transfer_link_stays(table[i].target, table[i].depth) != table[i].stays)
            fail_msg("'%s' at depth %u", table[i].target, table[i].depth);
}

static void test_a_tree_comes_over(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    struct sides *s = *state;
    struct err err = {0};
    struct stat st;

    sides_mkdir(s, "run/tree/a");
    sides_write(s, "run/tree/a/-rf", "dash");
    sides_write(s, "run/tree/a/...", "dots");
    sides_write(s, "run/tree/run", "x");
    assert_int_equal(fchmodat(s->top_fd, "run/tree/run", 06777, 0), 0);
    assert_int_equal(fchmodat(s->top_fd, "run/tree/a", 0770, 0), 0);
    assert_int_equal(symlinkat("../run", s->top_fd, "run/tree/a/up"), 0);
    assert_int_equal(copy_out(s, &t, &err), 0);
    sides_expect(s, "host/a/-rf", "dash");
    sides_expect(s, "host/a/...", "dots");
    st = sides_stat(s, "host/run");
    assert_int_equal(st.st_mode, S_IFREG | 0755);
    st = sides_stat(s, "host/a");
    assert_int_equal(st.st_mode, S_IFDIR | 0750);
    st = sides_stat(s, "host/a/up");
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(t.files, 3);
    assert_int_equal(t.folders, 1);
    assert_int_equal(t.links, 1);
    assert_int_equal(t.left_out, 0);
}

static void test_what_is_left_out_is_named(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    struct sides *s = *state;
    struct err err = {0};

    sides_write(s, "run/tree/ok", "ok");
    assert_int_equal(symlinkat("/etc/passwd", s->top_fd, "run/tree/absolute"), 0);
    assert_int_equal(symlinkat("../../../etc/passwd", s->top_fd, "run/tree/upwards"), 0);
    assert_int_equal(symlinkat("ok/../../x", s->top_fd, "run/tree/sideways"), 0);
    assert_int_equal(mkfifoat(s->top_fd, "run/tree/fifo\033[2J", 0600), 0);
    assert_int_equal(copy_out(s, &t, &err), 0);
    sides_expect(s, "host/ok", "ok");
    assert_int_equal(t.left_out, 4);
    assert_true(is_noted(&t, "absolute: "));
    assert_true(is_noted(&t, "upwards: "));
    assert_true(is_noted(&t, "sideways: "));
    assert_true(is_noted(&t, "fifo\\x1b[2J: "));
    assert_int_equal(faccessat(s->host, "absolute", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_nothing_is_written_through_a_link(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    struct sides *s = *state;
    struct err err = {0};
    struct stat st;

    sides_write(s, "victim", "untouched");
    sides_write(s, "run/tree/f", "new");
    sides_mkdir(s, "run/tree/d");
    sides_write(s, "run/tree/d/f", "new");
    sides_mkdir(s, "outside");
    sides_write(s, "outside/keep", "keep");
    assert_int_equal(symlinkat("../victim", s->host, "f"), 0);
    assert_int_equal(symlinkat("../outside", s->host, "d"), 0);
    assert_int_equal(copy_out(s, &t, &err), 0);
    sides_expect(s, "victim", "untouched");
    sides_expect(s, "host/f", "new");
    st = sides_stat(s, "host/f");
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(faccessat(s->top_fd, "outside/f", F_OK, 0), -1);
    assert_true(is_noted(&t, "d: "));
}

static void test_hard_links_are_broken_not_written(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    struct sides *s = *state;
    struct err err = {0};

    sides_write(s, "victim", "untouched");
    sides_write(s, "run/tree/f", "new");
    assert_int_equal(linkat(s->top_fd, "victim", s->host, "f", 0), 0);
    assert_int_equal(copy_out(s, &t, &err), 0);
    sides_expect(s, "victim", "untouched");
    sides_expect(s, "host/f", "new");
}

static void test_holes_cost_nothing(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    const off_t huge = (off_t)1 << 40;
    struct sides *s = *state;
    struct err err = {0};
    struct stat st;
    int fd;

    sides_write(s, "run/tree/huge", "x");
    fd = openat(s->top_fd, "run/tree/huge", O_RDWR | O_CLOEXEC);
    if (ftruncate(fd, huge) < 0) { /* a file system that has no such files */
        closep(&fd);
        return;
    }
    assert_int_equal(pwrite(fd, "end", 3, huge - 3), 3);
    closep(&fd);
    assert_int_equal(copy_out(s, &t, &err), 0);
    st = sides_stat(s, "host/huge");
    assert_true(st.st_size == huge);
    assert_true(st.st_blocks < 1024);
}

static void test_no_more_than_was_there(void **state) {
    struct sides *s = *state;
    uint64_t bytes = 0;
    int from, to;

    sides_write(s, "run/tree/f", "0123456789");
    from = openat(s->top_fd, "run/tree/f", O_RDONLY | O_CLOEXEC);
    to = openat(s->host, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(transfer_content(from, to, 4, &bytes), 0); /* it has grown since it was looked at */
    assert_int_equal(bytes, 4);
    sides_expect(s, "host/f", "0123");
    assert_int_equal(ftruncate(to, 0), 0);
    assert_int_equal(transfer_content(from, to, 100, &bytes), 0); /* it was cut */
    assert_int_equal(bytes, 10);
    sides_expect(s, "host/f", "0123456789");
    closep(&from);
    closep(&to);
}

static void test_folder_in_the_way_stays(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 022};
    struct sides *s = *state;
    struct err err = {0};

    sides_write(s, "run/tree/x", "file");
    sides_write(s, "run/tree/y", "file");
    sides_mkdir(s, "host/x");
    sides_write(s, "host/x/keep", "keep");
    assert_int_equal(copy_out(s, &t, &err), 0);
    sides_expect(s, "host/x/keep", "keep");
    sides_expect(s, "host/y", "file");
    assert_true(is_noted(&t, "x: "));
}

static void test_a_stream_becomes_a_file(void **state) {
    CLEANUP(transfer_done) struct transfer t = {.umask_ = 0};
    struct sides *s = *state;
    struct err err = {0};
    int p[2];

    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(write(p[1], "from a pipe", 11), 11);
    closep(&p[1]);
    assert_int_equal(transfer_file(&t, p[0], s->host, "f", 0640, "f", &err), 0);
    closep(&p[0]);
    sides_expect(s, "host/f", "from a pipe");
    assert_int_equal(sides_stat(s, "host/f").st_mode, S_IFREG | 0640);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_that_stay_and_that_do_not),
        cmocka_unit_test_setup_teardown(test_a_tree_comes_over, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_left_out_is_named, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_nothing_is_written_through_a_link, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_hard_links_are_broken_not_written, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_holes_cost_nothing, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_no_more_than_was_there, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_folder_in_the_way_stays, setup, sides_teardown),
        cmocka_unit_test_setup_teardown(test_a_stream_becomes_a_file, setup, sides_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
