/* SPDX-License-Identifier: Apache-2.0 */
/* The files come from git itself (tests/fuzz/corpus/gitindex); here they are read, cut short and bent. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/strv.h"
#include "os/fd.h"
#include "workspace/git/gitindex.h"

enum { FILE_MAX = 4096 };

static int note(const struct gitindex_entry *e, void *arg, struct err *err) {
    return strv_add(arg, e->path);
}

/* The object name in hexadecimal digits. */
static int note_id(const struct gitindex_entry *e, void *arg, struct err *err) {
    char hex[65];

    for (size_t i = 0; i < e->id_len; i++)
        snprintf(hex + 2 * i, 3, "%02x", e->id[i]);
    return strv_add(arg, hex);
}

static size_t read_sample(const char *name, unsigned char data[static FILE_MAX]) {
    char path[100];
    CLEANUP(closep) int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "tests/fuzz/corpus/gitindex/%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd_read_some(fd, data, FILE_MAX);
    assert_true(n > 0 && n < FILE_MAX);
    return (size_t)n;
}

static void test_versions(void **state) {
    static const struct {
        const char *name;
        size_t paths;
    } rows[] = {{"v2", 4}, {"v3", 5}, {"v4", 4}, {"sha256", 4}};
    unsigned char data[FILE_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(strv_done) struct strv paths = {0};
        size_t len = read_sample(rows[i].name, data);

        assert_int_equal(gitindex_parse(data, len, note, &paths, NULL), 0);
        assert_int_equal(paths.len, rows[i].paths);
        assert_string_equal(paths.v[0], ".env");
        assert_string_equal(paths.v[1], "a/b.pem");
        assert_string_equal(paths.v[2], "a/b/c.txt");
        assert_string_equal(paths.v[paths.len - 1], "zz");
    }
}

/* What 'git ls-files -s' says of the same files. */
static void test_ids(void **state) {
    static const char one[] = "c1b0730e0133447badcfd47fd144e254807b06e1";
    static const struct {
        const char *name, *id;
    } rows[] = {
        {"v2", one}, {"v3", one}, {"v4", one}, {"sha256", "4b6cea43da6e13c24f191bcb97b51a58781d1ccdd8281d96291a2582f5177b78"}};
    unsigned char data[FILE_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(strv_done) struct strv ids = {0};
        size_t len = read_sample(rows[i].name, data);

        assert_int_equal(gitindex_parse(data, len, note_id, &ids, NULL), 0);
        assert_string_equal(ids.v[0], rows[i].id);
        assert_string_equal(ids.v[ids.len - 1], rows[i].id);
        if (ids.len == 5)
            assert_string_equal(ids.v[3], "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }
}

static void test_cut_short(void **state) {
    static const char *const names[] = {"v2", "v3", "v4", "sha256"};
    unsigned char data[FILE_MAX];

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        for (size_t len = read_sample(names[i], data); len-- > 0;) {
            CLEANUP(strv_done) struct strv paths = {0};

            assert_int_equal(gitindex_parse(data, len, note, &paths, NULL), -EBADMSG);
            assert_int_equal(paths.len, 0); /* nothing is told before the whole makes sense */
        }
}

static void expect_refusal(unsigned char *data, size_t len, size_t at, const char *bytes) {
    unsigned char bent[FILE_MAX];
    struct err err = {0};

    memcpy(bent, data, len);
    memcpy(bent + at, bytes, 4);
    assert_int_equal(gitindex_parse(bent, len, note, NULL, &err), -EBADMSG);
    assert_string_equal(err.msg, "git's index is damaged, split, or of a version that is not known here");
}

static void test_bent(void **state) {
    unsigned char data[FILE_MAX];
    size_t len = read_sample("v2", data);
    unsigned char *tree = memmem(data, len, "TREE", 4);

    expect_refusal(data, len, 0, "XIRC");
    expect_refusal(data, len, 4, "\0\0\0\5");
    expect_refusal(data, len, 8, "\xff\xff\xff\xff");
    if (tree)
        expect_refusal(data, len, (size_t)(tree - data), "link"); /* a split index: most paths are elsewhere */
    memset(data + len - 20, 0, 20);
    memcpy(data + len - 20, "link\0\0\0\0", 8); /* the checksum is no extension */
    {
        CLEANUP(strv_done) struct strv paths = {0};

        assert_int_equal(gitindex_parse(data, len, note, &paths, NULL), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions), cmocka_unit_test(test_ids),
                                       cmocka_unit_test(test_cut_short), cmocka_unit_test(test_bent)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
