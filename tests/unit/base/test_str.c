/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/strv.h"

static void test_starts_and_ends(void **state) {
    assert_true(str_starts("/home/u", "/home"));
    assert_true(str_starts("x", ""));
    assert_false(str_starts("/ho", "/home"));
    assert_true(str_ends("a.json", ".json"));
    assert_true(str_ends("x", ""));
    assert_false(str_ends("json", ".json"));
    assert_false(str_ends("a.jsonx", ".json"));
}

static void test_utf8(void **state) {
    static const struct {
        const char *s;
        size_t len;
    } table[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\x01", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xe2\x82\xac", 3},
        {"\xed\x9f\xbf", 3}, /* the last before the surrogates */
        {"\xee\x80\x80", 3}, /* the first after them */
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4}, /* U+10FFFF */
        {"\xc0\x80", 0},         /* overlong NUL */
        {"\xc0\xaf", 0},         /* overlong slash */
        {"\xc1\xbf", 0},
        {"\xe0\x80\xaf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x80\x80\xaf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xed\xa0\x80", 0}, /* surrogates */
        {"\xed\xbf\xbf", 0},
        {"\xf4\x90\x80\x80", 0}, /* past U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xfe", 0},
        {"\xff", 0},
        {"\x80", 0}, /* a continuation on its own */
        {"\xbf\xbf", 0},
        {"\xc2", 0}, /* cut */
        {"\xc2"
         "a",
         0},
        {"\xe2\x82", 0},
        {"\xe2", 0},
        {"\xe2\x82"
         "a",
         0},
        {"\xf0\x9f\x98", 0},
        {"\xf0\x9f", 0},
        {"\xf0\x9f\x98"
         "a",
         0},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        /* On the heap, so that AddressSanitizer sees a step past the end. */
        CLEANUP(freep) char *s = strdup(table[i].s);

        if (str_utf8_len(s) != table[i].len)
            fail_msg("row %zu: %zu bytes", i, str_utf8_len(s));
        assert_int_equal(str_is_utf8(s), table[i].len > 0);
    }
    assert_true(str_is_utf8(""));
    assert_true(str_is_utf8("na\xc3\xafve \xf0\x9f\x98\x80"));
    assert_false(str_is_utf8("naive\xc3"));
}

static void test_nearest(void **state) {
    static const char *const names[] = {"profile", "memory", "network",
                                        "timeout", "p",      "a-name-that-is-longer-than-the-forty-characters-allowed"};
    static const struct {
        const char *word, *nearest;
    } table[] = {
        {"profile", "profile"},
        {"profil", "profile"},
        {"porfile", "profile"}, /* two steps */
        {"memroy", "memory"},
        {"netwrk", "network"},
        {"q", "p"},
        {"zzz", NULL},
        {"something-else", NULL},
        {"mem", NULL}, /* half a word is no slip */
        {"a-name-that-is-longer-than-the-forty-characters-allowed", NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *near = str_nearest(table[i].word, names, ARRAY_LEN(names));

        if (!table[i].nearest)
            assert_null(near);
        else
            assert_string_equal(near, table[i].nearest);
    }
    assert_null(str_nearest("profile", NULL, 0));
}

static void test_freep(void **state) {
    char *s = strdup("x");

    freep(&s);
    assert_null(s);
    freep(&s);
}

static void test_strv_grows(void **state) {
    CLEANUP(strv_done) struct strv v = {0};

    assert_false(strv_has(&v, "x"));
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(strv_addf(&v, "item %d", i), 0);
        assert_int_equal(v.len, (size_t)i + 1);
        assert_null(v.v[v.len]);
    }
    assert_string_equal(v.v[0], "item 0");
    assert_string_equal(v.v[999], "item 999");
    assert_true(strv_has(&v, "item 500"));
    assert_false(strv_has(&v, "item 5000"));
    assert_false(strv_has(&v, "item"));
}

static void test_strv_owns(void **state) {
    struct strv v = {0};
    char text[] = "copied";

    assert_int_equal(strv_add(&v, text), 0);
    text[0] = 'X';
    assert_string_equal(v.v[0], "copied");
    assert_int_equal(strv_add_take(&v, strdup("taken")), 0);
    assert_true(strv_add_take(&v, NULL) < 0); /* a strdup that failed */
    assert_int_equal(v.len, 2);
    strv_done(&v);
    assert_null(v.v);
    assert_int_equal(v.len, 0);
    strv_done(&v);
}

static void test_index(void **state) {
    static const char *const names[] = {"a", NULL, "b"};

    assert_int_equal(str_index("a", names, 3), 0);
    assert_int_equal(str_index("b", names, 3), 2);
    assert_int_equal(str_index("b", names, 2), -1);
    assert_int_equal(str_index("", names, 3), -1);
    assert_int_equal(str_index(NULL, names, 3), -1);
}

static void test_set(void **state) {
    CLEANUP(freep) char *s = NULL;

    assert_int_equal(str_set(&s, "a"), 0);
    assert_int_equal(str_set(&s, "b"), 0);
    assert_string_equal(s, "b");
    assert_int_equal(str_set(&s, NULL), 0);
    assert_null(s);
}

static void test_add_all(void **state) {
    CLEANUP(strv_done) struct strv from = {0}, to = {0};

    assert_int_equal(strv_add_all(&to, &from), 0);
    assert_int_equal(to.len, 0);
    assert_int_equal(strv_add(&to, "x") + strv_add(&from, "a") + strv_add(&from, "b"), 0);
    assert_int_equal(strv_add_all(&to, &from), 0);
    assert_int_equal(to.len, 3);
    assert_string_equal(to.v[2], "b");
    assert_null(to.v[3]);
}

static void test_plural(void **state) {
    assert_string_equal(str_plural(0, "file", "files"), "files");
    assert_string_equal(str_plural(1, "file", "files"), "file");
    assert_string_equal(str_plural(UINT64_MAX, "file", "files"), "files");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_and_ends), cmocka_unit_test(test_utf8),       cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_freep),           cmocka_unit_test(test_strv_grows), cmocka_unit_test(test_strv_owns),
        cmocka_unit_test(test_index),           cmocka_unit_test(test_set),        cmocka_unit_test(test_add_all),
        cmocka_unit_test(test_plural),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
