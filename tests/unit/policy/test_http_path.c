/* SPDX-License-Identifier: Apache-2.0 */
/* ATTACKS 47, 54: one spelling per path, so that rule and server see the same request. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "policy/host/http_path.h"

static struct http_path p;

static void test_readings(void **state) {
    static const struct {
        const char *raw, *text, *other;
    } rows[] = {
        {"/", "/", ""},
        {"*", "*", ""},
        {"/a/b", "/a/b", ""},
        {"/a/b/", "/a/b/", ""},
        {"/a/b?x=/../y", "/a/b", ""},
        {"/?", "/", ""},
        {"/%61%2Db%7e%5F%2e%39", "/a-b~_.9", ""},
        {"/%41%3a%40", "/A%3A%40", ""},
        {"/a%20b", "/a%20b", ""},
        {"/a+b,c;d=e:f@g!$&'()*", "/a+b,c;d=e:f@g!$&'()*", ""},
        {"/{a}|\"b\"<c>^`", "/%7Ba%7D%7C%22b%22%3Cc%3E%5E%60", ""},
        {"/caf%c3%a9", "/caf%C3%A9", ""},
        {"//a", "/a", ""},
        {"/a///b//", "/a/b/", ""},
        {"//evil.com/x", "/evil.com/x", ""},
        {"/./a/./b/.", "/a/b/", ""},
        {"/a/../b", "/b", ""},
        {"/a/b/..", "/a/", ""},
        {"/a/b/../", "/a/", ""},
        {"/a/..", "/", ""},
        {"/a/b/../../c", "/c", ""},
        {"/a/%2e%2e/b", "/b", ""},
        {"/a/.%2E/b", "/b", ""},
        {"/a/%2e/b", "/a/b", ""},
        {"/a//../b", "/b", ""},
        {"/...", "/...", ""},
        {"/.hidden/..x", "/.hidden/..x", ""},
        {"/a;x=1/b", "/a;x=1/b", ""},
        {"/%25", "/%25", ""},
        {"/100%25/x", "/100%25/x", ""},
        {"/%2541", "/%2541", ""},
        {"/@types%2fnode", "/@types%2Fnode", "/@types/node"},
        {"/a%2F%2Fb", "/a%2F%2Fb", "/a/b"},
        {"/admin%2fx/y", "/admin%2Fx/y", "/admin/x/y"},
        {"/a%2f", "/a%2F", "/a/"},
        {"/%2fevil", "/%2Fevil", "/evil"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};

        if (http_path_parse(rows[i].raw, strlen(rows[i].raw), &p, &err) < 0)
            fail_msg("'%s': %s", rows[i].raw, err.msg);
        assert_string_equal(p.text, rows[i].text);
        assert_string_equal(p.other, rows[i].other);
        assert_int_equal(p.len, strlen(p.text));
        assert_int_equal(p.query, strcspn(rows[i].raw, "?"));
        assert_int_equal(p.changed, strncmp(rows[i].raw, rows[i].text, MAX_OF(p.query, p.len)) != 0);
    }
}

static void test_refused(void **state) {
    static const struct {
        const char *raw;
        size_t len;
        const char *why;
    } rows[] = {
        {"", 0, "start with a slash"},
        {"a", 0, "start with a slash"},
        {"?x", 0, "start with a slash"},
        {"http://evil.com/", 0, "start with a slash"},
        {"*x", 0, "start with a slash"},
        {"%2fa", 0, "start with a slash"},
        {"/a\0b", 4, "0x00"},
        {"/a b", 0, "0x20"},
        {"/a\r\nX: y", 0, "0x0d"},
        {"/a\tb", 0, "0x09"},
        {"/a\x7f", 0, "0x7f"},
        {"/caf\xc3\xa9", 0, "ASCII"},
        {"/a\\b", 0, "'\\'"},
        {"/a\\..\\b", 0, "'\\'"},
        {"/a#b", 0, "'#'"},
        {"/a%5cb", 0, "backslash"},
        {"/..%5C..%5cetc", 0, "backslash"},
        {"/%00", 0, "%00"},
        {"/a%0d%0aX:y", 0, "%0D"},
        {"/%7f", 0, "%7F"},
        {"/%", 0, "hexadecimal"},
        {"/%2", 0, "hexadecimal"},
        {"/%zz", 0, "hexadecimal"},
        {"/%u002e", 0, "hexadecimal"},
        {"/% 41", 0, "hexadecimal"},
        {"/%%32%65", 0, "hexadecimal"},
        {"/..", 0, "root"},
        {"/../a", 0, "root"},
        {"/%2e%2e/a", 0, "root"},
        {"/a/../../b", 0, "root"},
        {"//..", 0, "root"},
        {"/..;/admin", 0, "parameter"},
        {"/a/..;x=1/b", 0, "parameter"},
        {"/a/.;/b", 0, "parameter"},
        {"/a/%2e%2e;/b", 0, "parameter"},
        {"/a/..%2fb", 0, "dot segment"},
        {"/a%2f..%2fb", 0, "dot segment"},
        {"/a%2f%2e%2e/b", 0, "dot segment"},
        {"/a/.%2fb", 0, "dot segment"},
        {"/a%2f..", 0, "dot segment"},
        {"/a%2fb/../c", 0, "dot segment"},
        {"/a/b/../c%2fd", 0, "dot segment"},
        {"/a%2f..;/b", 0, "dot segment"},
        {"/%252e%252e/a", 0, "twice"},
        {"/a%252fb", 0, "twice"},
        {"/a%255cb", 0, "twice"},
        {"/%2500", 0, "twice"},
        {"/%25252e", 0, "twice"},
        {"/%25%32%65", 0, "twice"},
        {"/%25%32e", 0, "twice"},
        {"/%c0%ae%c0%ae/a", 0, "UTF-8"},
        {"/%c1%9c", 0, "UTF-8"},
        {"/%e0%80%af", 0, "UTF-8"},
        {"/%f0%80%80%af", 0, "UTF-8"},
        {"/%ff", 0, "UTF-8"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        int r = http_path_parse(rows[i].raw, rows[i].len ? rows[i].len : strlen(rows[i].raw), &p, &err);

        if (r != -EINVAL)
            fail_msg("'%s' was taken for '%s'", rows[i].raw, p.text);
        if (!strstr(err.msg, rows[i].why))
            fail_msg("'%s': '%s' does not say '%s'", rows[i].raw, err.msg, rows[i].why);
    }
}

static void test_length(void **state) {
    static char raw[3 * HTTP_PATH_MAX];
    struct err err = {0};

    memset(raw, '/', 1);
    memset(raw + 1, 'a', sizeof raw - 1);
    assert_int_equal(http_path_parse(raw, HTTP_PATH_MAX, &p, &err), 0);
    assert_int_equal(http_path_parse(raw, HTTP_PATH_MAX + 1, &p, &err), -EINVAL);
    memset(raw + 1, '"', HTTP_PATH_MAX / 2); /* grows threefold */
    assert_int_equal(http_path_parse(raw, HTTP_PATH_MAX / 2, &p, &err), -EINVAL);
    raw[10] = '?';
    assert_int_equal(http_path_parse(raw, sizeof raw, &p, &err), 0);
    assert_int_equal(p.query, 10);
}

static void test_globs(void **state) {
    static const struct {
        const char *glob, *yes, *no; /* separated by spaces */
    } rows[] = {
        {"/a", "/a", "/a/ /A /ab / /a/b"},
        {"/", "/", "/a"},
        {"/a/*", "/a/ /a/b /a/..", "/a /a/b/ /a/b/c"},
        {"/a/**", "/a /a/ /a/b /a/b/c/", "/ab /b/a /A/b"},
        {"/**", "/ /a /a/b", "*"},
        {"/*", "/ /a", "/a/ /a/b"},
        {"/a/*/c", "/a/b/c /a//c", "/a/b/b/c /a/c"},
        {"/a/**/c", "/a/b/c /a/b/b/c /a/b/c/c", "/a/c /b/c"},
        {"/a**c", "/ac /abc /a/b/c /acc", "/a /ab"},
        {"/a*c*e", "/ace /abcde /accee", "/abc/de /ac"},
        {"/*/b/**/*.txt", "/a/b/c/d.txt /a/b/c/d/e.txt", "/a/b/d.txt /a/c/b/d.txt /a/b/c/d.tx"},
        {"/**/x*y/**z", "/a/xy/z /a/b/xay/q/z", "/a/x/y/z /xy"},
        {"/v1/%7Eme/a%2fb", "/v1/~me/a%2Fb", "/v1/~me/a/b"},
        {"*", "* /a /", "/a/b"}, /* OPTIONS *; as a pattern it is one segment */
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char glob[PATH_GLOB_MAX + 1], words[200];
        struct err err = {0};

        if (path_glob_parse(rows[i].glob, strlen(rows[i].glob), glob, &err) < 0)
            fail_msg("'%s': %s", rows[i].glob, err.msg);
        for (int yes = 0; yes < 2; yes++) {
            char *at = words, *word;

            snprintf(words, sizeof words, "%s", yes ? rows[i].yes : rows[i].no);
            while ((word = strsep(&at, " ")))
                if (path_glob_match(glob, word) != yes && !(rows[i].glob[0] == '*' && yes))
                    fail_msg("'%s' %s '%s'", glob, yes ? "does not match" : "matches", word);
        }
    }
}

/* What would take an ordinary backtracking matcher longer than the world has. */
static void test_glob_that_backtracks(void **state) {
    static char path[HTTP_PATH_MAX + 1], glob[PATH_GLOB_MAX + 1];

    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    snprintf(glob, sizeof glob, "/");
    for (size_t n = 1; n + 3 < sizeof glob; n += 3)
        memcpy(glob + n, n % 2 ? "a*a" : "**a", 4);
    memcpy(glob + strlen(glob) - 1, "b", 2);
    assert_false(path_glob_match(glob, path));
}

static void test_bad_globs(void **state) {
    static const char *const bad[] = {"", "a", "/a?b", "/a b", "/../a", "/a\\b", "/%zz", "/a#"};
    char glob[PATH_GLOB_MAX + 1], longer[PATH_GLOB_MAX + 2];
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(path_glob_parse(bad[i], strlen(bad[i]), glob, &err), -EINVAL);
    memset(longer, '/', sizeof longer);
    assert_int_equal(path_glob_parse(longer, sizeof longer, glob, &err), -EINVAL);
    memset(longer + 1, '"', sizeof longer - 1);
    assert_int_equal(path_glob_parse(longer, PATH_GLOB_MAX, glob, &err), -EINVAL);
}

/* For rules that deny: what a server may take for the path. */
static void test_loose_globs(void **state) {
    static const struct {
        const char *glob, *yes, *no; /* separated by spaces */
    } rows[] = {
        {"/admin",
         "/admin /Admin /ADMIN/ /%61dmin /%2561dmin /%25%36%31dmin //admin /x/../admin /admin;a=b /admin%3Ba /admin. /admin%20 /admin.%20. /admin%2F "
         "/%2Fadmin /admi%EF%BD%8E /%EF%BD%81dmin /;a/admin /admin;a/ /.../admin",
         "/ /administrator /admin/users /x/admin /adm%C3%ADn%C3%A9s /admin%C3%A9 /admin%2Fusers /;admin"},
        {"/admin/", "/admin /admin/ /Admin/.", "/admin/x"},
        {"/admin/**", "/admin /ADMIN/x/y /admin;a/x /admin%2Fx /%61dmin%2fx /admin//x", "/administrator /x/admin"},
        {"/a/*/c", "/A/b/C /a/b%2Fb/c /a/b;x/c", "/a/b/b/c /a/c"},
        {"/a;b", "/a;b /A;B /a%3bb", "/a /a;c"},
        {"/a%2fb", "/a/b /a%2Fb /A%2FB", "/ab"},
        {"/", "/ // /.", "/a"},
    };
    static struct http_path path;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char glob[PATH_GLOB_MAX + 1], words[400];
        struct err err = {0};

        if (path_glob_parse(rows[i].glob, strlen(rows[i].glob), glob, &err) < 0)
            fail_msg("'%s': %s", rows[i].glob, err.msg);
        for (int yes = 0; yes < 2; yes++) {
            char *at = words, *word;

            snprintf(words, sizeof words, "%s", yes ? rows[i].yes : rows[i].no);
            while ((word = strsep(&at, " "))) {
                if (http_path_parse(word, strlen(word), &path, &err) < 0)
                    fail_msg("'%s': %s", word, err.msg);
                if (path_glob_match_loose(glob, &path) != yes)
                    fail_msg("'%s' %s '%s'", glob, yes ? "does not match" : "matches", word);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readings),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_globs),
        cmocka_unit_test(test_loose_globs),
        cmocka_unit_test(test_bad_globs),
        cmocka_unit_test(test_glob_that_backtracks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
