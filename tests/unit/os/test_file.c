/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/remove.h"

static char path[32];
static int dir = -1;

static int setup(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/bawn-file-XXXXXX");
    assert_non_null(mkdtemp(path));
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0;
}

static int teardown(void **state) {
    (void)state;
    closep(&dir);
    return remove_tree(AT_FDCWD, path);
}

static void put(const char *name, size_t len) {
    CLEANUP(freep) char *data = malloc(len + 1);

    assert_non_null(data);
    memset(data, 'x', len);
    unlinkat(dir, name, 0);
    assert_int_equal(file_create_at(dir, name, 0600, data, len), 0);
}

static void test_read_sizes(void **state) {
    static const struct {
        size_t file, ceiling;
        int want;
    } table[] = {{0, 0, 0},        {0, 10, 0},          {1, 0, -EFBIG},      {10, 10, 0},
                 {11, 10, -EFBIG}, {100000, 100000, 0}, {100000, 200000, 0}, {100000, 99999, -EFBIG}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        for (unsigned flags = 0; flags <= FILE_ANY; flags += FILE_ANY) {
            CLEANUP(buf_done) struct buf b = BUF_INIT(table[i].ceiling);

            put("f", table[i].file);
            assert_int_equal(file_read_at(dir, "f", flags, &b), table[i].want);
            if (table[i].want == 0) {
                assert_true(buf_ok(&b));
                assert_int_equal(b.len, table[i].file);
                assert_int_equal(strlen(buf_str(&b)), b.len);
            }
        }
}

static void test_read_appends(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(10);

    (void)state;
    put("f", 4);
    assert_int_equal(file_read_at(dir, "f", 0, &b), 0);
    assert_int_equal(file_read_at(dir, "f", 0, &b), 0);
    assert_string_equal(buf_str(&b), "xxxxxxxx");
    buf_addc(&b, 'y');
    assert_string_equal(buf_str(&b), "xxxxxxxxy");
    assert_int_equal(file_read_at(dir, "f", 0, &b), -EFBIG);
}

/* A file that says it is empty, and a stream. */
static void test_read_unknown_size(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 20);
    CLEANUP(closep) int in = -1, out = -1;

    (void)state;
    assert_int_equal(file_read("/proc/self/status", 0, &b), 0);
    assert_non_null(strstr(buf_str(&b), "\nPid:"));
    buf_clear(&b);
    assert_int_equal(fd_pipe(&in, &out), 0);
    assert_int_equal(fd_write_all(out, "stream", 6), 0);
    closep(&out);
    assert_int_equal(file_read_fd(in, FILE_ANY, &b), 0);
    assert_string_equal(buf_str(&b), "stream");
}

static void test_read_kinds(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);

    (void)state;
    put("f", 4);
    assert_int_equal(symlinkat("f", dir, "link"), 0);
    assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
    assert_int_equal(file_read_at(dir, "link", 0, &b), -ELOOP);
    assert_int_equal(file_read_at(dir, "fifo", 0, &b), -EINVAL);
    assert_int_equal(file_read_at(dir, ".", 0, &b), -EINVAL);
    assert_int_equal(file_read_at(dir, "none", 0, &b), -ENOENT);
    assert_int_equal(b.len, 0);
    assert_int_equal(file_read_at(dir, "link", FILE_FOLLOW, &b), 0);
    assert_int_equal(b.len, 4);
}

static void test_err(void **state) {
    struct err err = {0};

    (void)state;
    assert_int_equal(file_err(&err, -EFBIG, "a", 7), -EFBIG);
    assert_string_equal(err.msg, "'a' is larger than 7 bytes");
    assert_int_equal(file_err(&err, -ENOENT, "a", 7), -ENOENT);
    assert_string_equal(err.msg, "read 'a': No such file or directory");
}

static void assert_content(const char *name, const char *want) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);

    assert_int_equal(file_read_at(dir, name, 0, &b), 0);
    assert_string_equal(buf_str(&b), want);
}

static void test_replace(void **state) {
    static const unsigned ways[] = {0, FILE_SYNC, FILE_SOLE, FILE_SOLE | FILE_SYNC};
    struct stat st;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        assert_int_equal(file_replace_at(dir, "r", 0600, ways[i], "one", 3), 0);
        assert_content("r", "one");
        assert_int_equal(fstatat(dir, "r", &st, 0), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(file_replace_at(dir, "r", 0600, ways[i], "two", 3), 0);
        assert_content("r", "two");
        assert_int_equal(file_replace_at(dir, "r", 0600, ways[i] | FILE_NEW, "three", 5), -EEXIST);
        assert_content("r", "two");
        assert_int_equal(unlinkat(dir, "r", 0), 0);
        assert_int_equal(file_replace_at(dir, "r", 0600, ways[i] | FILE_NEW, "", 0), 0);
        assert_content("r", "");
        assert_int_equal(faccessat(dir, ".r.new", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    }
}

/* What a crash left is used again, unless it is a link. */
static void test_replace_sole(void **state) {
    (void)state;
    put(".r.new", 20);
    assert_int_equal(file_replace_at(dir, "r", 0600, FILE_SOLE, "one", 3), 0);
    assert_content("r", "one");
    assert_int_equal(symlinkat("f", dir, ".r.new"), 0);
    assert_int_equal(file_replace_at(dir, "r", 0600, FILE_SOLE, "two", 3), -ELOOP);
    assert_content("r", "one");
    assert_int_equal(unlinkat(dir, ".r.new", 0), 0);
}

static void test_replace_fails(void **state) {
    char name[256];

    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[255] = 0;
    assert_int_equal(file_replace_at(dir, name, 0600, 0, "", 0), -ENAMETOOLONG);
    assert_int_equal(mkdirat(dir, "d", 0700), 0);
    assert_int_equal(file_replace_at(dir, "d", 0600, FILE_SOLE, "", 0), -EISDIR);
    assert_int_equal(faccessat(dir, ".d.new", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void test_create(void **state) {
    (void)state;
    put("c", 1);
    assert_int_equal(file_create_at(dir, "c", 0600, "y", 1), -EEXIST);
    assert_content("c", "x");
}

static void test_line(void **state) {
    char line[8];

    (void)state;
    unlinkat(dir, "l", 0);
    assert_int_equal(file_create_at(dir, "l", 0600, "ab\ncd\n", 6), 0);
    assert_int_equal(file_line(dir, "l", line, sizeof line), 2);
    assert_string_equal(line, "ab");
    assert_int_equal(file_line(dir, "l", line, 3), -EFBIG);
    assert_string_equal(line, "");
    assert_int_equal(file_line(dir, "none", line, sizeof line), -ENOENT);
}

static void test_number(void **state) {
    static const char stat[] = "12\nusage 34\nuser_usage 5\nlimit max\nodd x\nold -1\n";
    static const struct {
        const char *key;
        int r;
        uint64_t want;
    } table[] = {{NULL, 0, 12},          {"usage", 0, 34},       {"limit", 0, UINT64_MAX},
                 {"old", 0, UINT64_MAX}, {"none", -ENODATA, 99}, {"odd", -EINVAL, 99}};

    (void)state;
    assert_int_equal(file_create_at(dir, "n", 0600, stat, sizeof stat - 1), 0);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        uint64_t n = 99;

        assert_int_equal(file_number(dir, "n", table[i].key, &n), table[i].r);
        assert_true(n == table[i].want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_sizes),   cmocka_unit_test(test_read_appends),  cmocka_unit_test(test_read_unknown_size),
        cmocka_unit_test(test_read_kinds),   cmocka_unit_test(test_err),           cmocka_unit_test(test_replace),
        cmocka_unit_test(test_replace_sole), cmocka_unit_test(test_replace_fails), cmocka_unit_test(test_create),
        cmocka_unit_test(test_line),         cmocka_unit_test(test_number),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
