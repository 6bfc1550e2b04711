/* SPDX-License-Identifier: Apache-2.0 */
/* Rules by hand; that they are git's is shown by tests/integration/test_ignore_git.py. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "workspace/hide/ignore.h"

static struct ignore *with(const char *rules) {
    struct ignore *ig = ignore_new();

    assert_non_null(ig);
    assert_int_equal(ignore_add_file(ig, "", ".sandboxignore", rules, strlen(rules), NULL), 0);
    return ig;
}

#define N IGNORE_NONE
#define X IGNORE_EXCLUDED
#define R IGNORE_REINCLUDED

/* A path that ends with '/' is asked about as a folder. */
static const struct {
    const char *rules, *path;
    enum ignore_verdict verdict;
} rows[] = {
    /* names */
    {".env\n", ".env", X},
    {".env\n", "a/b/.env", X},
    {".env\n", ".envx", N},
    {".env\n", ".ENV", N},
    {"*.pem", "a/x.pem", X},
    {"*.pem", "x.pem.txt", N},
    {"id_rsa*", "id_rsa.pub", X},
    {"a*b", "axxb", X},
    {"a*b", "ab", X},
    {"*", "anything", X},
    /* order and '!' */
    {"*.pem\n!a.pem\n", "a.pem", R},
    {"!a.pem\n*.pem\n", "a.pem", X},
    {"a\n!a\na\n", "a", X},
    {"!a\n", "a", R},
    {"secret/\n!secret/a\n", "secret/a", X},
    {"secret/*\n!secret/a\n", "secret/a", R},
    {"secret/**\n!secret/\n!secret/a\n", "secret/a", R},
    /* folders */
    {"a/\n", "a/", X},
    {"a/\n", "a", N},
    {"a/\n", "x/a/y", X},
    {"a/*/\n", "a/b/", X},
    {"a/*/\n", "a/b", N},
    /* anchors */
    {"/a\n", "a", X},
    {"/a\n", "x/a", N},
    {"a/b\n", "a/b", X},
    {"a/b\n", "x/a/b", N},
    {"/a/\n", "a/x", X},
    {"//a\n", "a", N},
    {"a//\n", "a/", N},
    {"/\n", "a", N},
    /* two stars */
    {"**/a\n", "a", X},
    {"**/a\n", "x/y/a", X},
    {"**/a/b\n", "x/a/b", X},
    {"**/a/b\n", "a/b", X},
    {"a/**\n", "a/x/y", X},
    {"a/**\n", "a/", N},
    {"a/**/b\n", "a/b", X},
    {"a/**/b\n", "a/x/y/b", X},
    {"a/**/b\n", "ab", N},
    {"a/**b\n", "a/xb", X},
    {"a/**b\n", "a/x/b", N},
    {"a**/b\n", "ab", X}, /* git's own: the first wildcard counts as a beginning */
    {"a**/b\n", "ax/y/b", X},
    {"x/?**/b\n", "x/ay/z/b", N},
    {"**/**\n", "a", X},
    {"a/**\\/b\n", "a/b", N},
    {"a/**\\/b\n", "a/x/b", X},
    {"*/b\n", "a/b", X},
    {"*/b\n", "a/x/b", N},
    {"a/?/b\n", "a///b", N},
    /* sets */
    {"[a-c]x\n", "bx", X},
    {"[!a-c]x\n", "bx", N},
    {"[^a-c]x\n", "dx", X},
    {"[]a]\n", "]", X},
    {"[!]a]\n", "]", N},
    {"[a\n", "[a", N},
    {"[\n", "[", N},
    {"[]\n", "[]", N},
    {"[\\]a]\n", "]", X},
    {"[a\\-c]\n", "b", N},
    {"[a-]\n", "-", X},
    {"[c-a]\n", "b", N},
    {"[[:digit:]]\n", "7", X},
    {"[[:digit:]x]\n", "x", X},
    {"[[:nope:]]\n", "n", N},
    {"[[:a]\n", ":", X},
    {"[[:space:]]\n", "\v", N},
    {"[\x80-\xff]\n", "\xe9", X},
    {"a[/]b\n", "a/b", N},
    {"a/[!x]b\n", "a/yb", X},
    /* escapes, spaces, comments, line ends */
    {"\\!a\n", "!a", X},
    {"\\#a\n", "#a", X},
    {"#a\n", "#a", N},
    {" #a\n", " #a", X},
    {"a\\\n", "a\\", N},
    {"a\\\\\n", "a\\", X},
    {"\\*\n", "*", X},
    {"\\*\n", "a", N},
    {"a  \n", "a", X},
    {"a\\ \n", "a ", X},
    {"a\\ \n", "a", N},
    {"a\t\n", "a", N},
    {"a\r\nb\r\n", "a", X},
    {"a\r", "a", X},
    {"\r\n", "\r", N},
    {"\xef\xbb\xbf"
     "a\n",
     "a", X},
    {"b\n\xef\xbb\xbf"
     "a\n",
     "a", N},
    {"", "a", N},
    {"\n\n!\n", "a", N},
    /* bytes */
    {"\xff*\n", "\xff\xfe", X},
    {"?\n", "\xc3\xa9", N},
    {"??\n", "\xc3\xa9", X},
};

static void test_rules(void **state) {
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(ignore_freep) struct ignore *ig = with(rows[i].rules);
        char path[64];
        size_t len = (size_t)snprintf(path, sizeof path, "%s", rows[i].path);
        bool is_dir = path[len - 1] == '/';
        enum ignore_verdict v;

        if (is_dir)
            path[len - 1] = 0;
        v = ignore_match(ig, path, is_dir);
        if (v != rows[i].verdict)
            fail_msg("row %zu: %s: %s: %d", i, rows[i].rules, rows[i].path, v);
    }
}

static void add(struct ignore *ig, const char *dir, const char *rules) {
    char origin[100];

    snprintf(origin, sizeof origin, "%s:", dir);
    assert_int_equal(ignore_add_file(ig, dir, origin, rules, strlen(rules), NULL), 0);
}

static void check_nested(const struct ignore *ig) {
    struct ignore_why why;

    assert_int_equal(ignore_explain(ig, "x.key", false, &why), X);
    assert_string_equal(why.origin, ":");
    assert_int_equal(ignore_explain(ig, "a/x.key", false, &why), R);
    assert_string_equal(why.origin, "a:");
    assert_int_equal(why.line, 2);
    assert_string_equal(why.pattern, "!*.key");
    assert_int_equal(ignore_match(ig, "a/b/x.key", false), R);
    assert_int_equal(ignore_match(ig, "a/b/c/x.key", false), X);
    assert_int_equal(ignore_match(ig, "a/b/c/top", false), X);
    assert_int_equal(ignore_match(ig, "a/b/c/d/top", false), N);
    assert_int_equal(ignore_match(ig, "ab/x.key", false), X);
    assert_int_equal(ignore_match(ig, "hidden/x", false), X); /* the file in there does not count */
}

static void test_nested(void **state) {
    static const char *const files[][2] = {
        {"", "*.key\nhidden/\n"}, {"a", "\n!*.key\n"}, {"a/b/c", "*.key\n/top\n"}, {"hidden", "!*\n"}};

    for (size_t first = 0; first < ARRAY_LEN(files); first++) { /* in any order */
        CLEANUP(ignore_freep) struct ignore *up = ignore_new(), *down = ignore_new();

        for (size_t i = 0; i < ARRAY_LEN(files); i++)
            add(up, files[(first + i) % ARRAY_LEN(files)][0], files[(first + i) % ARRAY_LEN(files)][1]);
        for (size_t i = ARRAY_LEN(files); i-- > 0;)
            add(down, files[(first + i) % ARRAY_LEN(files)][0], files[(first + i) % ARRAY_LEN(files)][1]);
        check_nested(up);
        check_nested(down);
    }
}

static void test_nested_only(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();

    assert_int_equal(ignore_match(ig, "a/x", false), N);
    add(ig, "a", "x\n");
    assert_int_equal(ignore_match(ig, "a/x", false), X);
    assert_int_equal(ignore_match(ig, "x", false), N);
    assert_string_equal(ignore_folder(ig, 0), "a");
    assert_null(ignore_folder(ig, 1));
}

static void test_later_file_of_a_folder_wins(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();

    add(ig, "a", "!x\n");
    add(ig, "", "!.env\n");
    add(ig, "", ".env\nx\n");
    assert_int_equal(ignore_match(ig, ".env", false), X);
    assert_int_equal(ignore_match(ig, "a/.env", false), X);
    assert_int_equal(ignore_match(ig, "a/x", false), R);
}

static void test_why(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = with("# c\n\n*.pem  \n!*.pub\nd/\n");
    struct ignore_why why = {"?", 1, "?"};

    assert_int_equal(ignore_explain(ig, "a", false, &why), N);
    assert_null(why.origin);
    assert_null(why.pattern);
    assert_int_equal(ignore_explain(ig, "x.pem", false, &why), X);
    assert_int_equal(why.line, 3);
    assert_string_equal(why.pattern, "*.pem");
    assert_int_equal(ignore_explain(ig, "d/x.pub", false, &why), X);
    assert_int_equal(why.line, 5);
    assert_int_equal(ignore_explain(ig, "k.pub/x", false, &why), N);
    assert_null(why.origin);
}

/* The newest matching rule wins whatever kind it is of. */
static void test_kinds_in_order(void **state) {
    static const char *const kinds[] = {"abc", "*bc", "ab*", "/d/abc", "a?c", "d/a*c", "**/abc", "d/**", "[a]bc"};

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        for (size_t j = 0; j < ARRAY_LEN(kinds); j++) {
            CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
            char rules[64];

            snprintf(rules, sizeof rules, "%s\n!%s\n", kinds[i], kinds[j]);
            add(ig, "", rules);
            assert_int_equal(ignore_match(ig, "d/abc", false), R);
            snprintf(rules, sizeof rules, "!%s\n%s\n", kinds[i], kinds[j]);
            add(ig, "", rules);
            assert_int_equal(ignore_match(ig, "d/abc", false), X);
        }
}

static void test_long_names(void **state) {
    char name[400], rules[1200];

    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    snprintf(rules, sizeof rules, "!*%s\n*%.300s\n%.290s*\n", name, name, name);
    {
        CLEANUP(ignore_freep) struct ignore *ig = with(rules);

        assert_int_equal(ignore_match(ig, name, false), X);
        assert_int_equal(ignore_match(ig, name + 109, false), X);
        assert_int_equal(ignore_match(ig, name + 110, false), N);
    }
}

static void expect_refusal(const char *dir, const struct buf *b, const char *message) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct err err = {0};

    assert_true(buf_ok(b));
    assert_int_equal(ignore_add_file(ig, dir, "f", buf_str(b), b->len, &err), -E2BIG);
    assert_string_equal(err.msg, message);
    assert_null(ignore_folder(ig, 0));
}

static void test_limits(void **state) {
    CLEANUP(buf_done)
    struct buf big = BUF_INIT(2 * IGNORE_FILE_MAX), many = BUF_INIT(IGNORE_FILE_MAX), line = BUF_INIT(2 * IGNORE_LINE_MAX),
               deep = BUF_INIT(10000), none = BUF_INIT(1);

    for (size_t i = 0; i <= IGNORE_FILE_MAX; i++)
        buf_addc(&big, '#');
    for (size_t i = 0; i <= IGNORE_PATTERNS_MAX; i++)
        buf_adds(&many, "a\n");
    for (size_t i = 0; i <= IGNORE_LINE_MAX; i++)
        buf_addc(&line, 'a');
    for (size_t i = 0; i < IGNORE_DEPTH_MAX; i++)
        buf_adds(&deep, "a/");
    buf_addc(&deep, 'a');
    expect_refusal("", &big, "f: larger than 1048576 bytes");
    expect_refusal("", &many, "f:10001: more than 10000 patterns");
    expect_refusal("", &line, "f:1: the pattern is longer than 4096 bytes");
    expect_refusal(buf_str(&deep), &none, "f: deeper than 256 folders");
}

static void test_limits_together(void **state) {
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    CLEANUP(buf_done) struct buf half = BUF_INIT(IGNORE_FILE_MAX);
    struct err err = {0};

    for (size_t i = 0; i <= IGNORE_PATTERNS_MAX / 2; i++)
        buf_adds(&half, "a\n");
    assert_int_equal(ignore_add_file(ig, "", "f", half.data, half.len, &err), 0);
    assert_int_equal(ignore_add_file(ig, "b", "g", half.data, half.len, &err), -E2BIG);
    assert_string_equal(err.msg, "g: the .sandboxignore files together have more than 10000 patterns");
    for (size_t i = 1; i < IGNORE_FILES_MAX; i++)
        assert_int_equal(ignore_add_file(ig, "c", "f", "", 0, &err), 0);
    assert_int_equal(ignore_add_file(ig, "c", "h", "", 0, &err), -E2BIG);
    assert_string_equal(err.msg, "h: more than 4096 .sandboxignore files");
    assert_int_equal(ignore_match(ig, "b/a", false), X); /* a refused file leaves the others as they are */
}

/* Whatever was asked before, and when files are added in between. */
static void test_near(void **state) {
    static const char *const paths[] = {"a",       "a/b",       "a/c.o",   "a/b/c",   "a/b/c.o",   "out/x",
                                        "a/out/x", "a/out/y.o", "web/x.o", "web/k.o", "web/d/k.o", "web/d/z",
                                        "z",       "web/out/y", "k.o",     "a/b/out"};
    static const char root[] = "*.o\nout/\n!a/out/\n", web[] = "!k.o\n/d/z\n", late[] = "c\n";
    CLEANUP(ignore_freep) struct ignore *ig = ignore_new();
    struct ignore_memo m = {0};
    struct err err = {0};

    for (int round = 0; round < 4; round++) {
        if (round == 1)
            assert_int_equal(ignore_add_file(ig, "", "f", root, sizeof root - 1, &err), 0);
        if (round == 2)
            assert_int_equal(ignore_add_file(ig, "web", "g", web, sizeof web - 1, &err), 0);
        if (round == 3)
            assert_int_equal(ignore_add_file(ig, "a/b", "h", late, sizeof late - 1, &err), 0);
        for (size_t i = 0; i < ARRAY_LEN(paths); i++)
            for (size_t k = 0; k < ARRAY_LEN(paths); k++) {
                ignore_match_near(ig, &m, paths[k], k % 2);
                for (int dir = 0; dir < 2; dir++)
                    assert_int_equal(ignore_match_near(ig, &m, paths[i], dir), ignore_match(ig, paths[i], dir));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_nested_only),
        cmocka_unit_test(test_later_file_of_a_folder_wins),
        cmocka_unit_test(test_why),
        cmocka_unit_test(test_kinds_in_order),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
