/* SPDX-License-Identifier: Apache-2.0 */
/* Strings in bytes that pass: all forms, all ways to cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/secret/finder.h"

static const char value[] = "sk-ant-api03-Zq9/x+\"7 secret?~";

static struct finder *make(const char *const *patterns, size_t n) {
    struct finder *f = NULL;

    assert_int_equal(finder_new(&f), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(finder_add(f, patterns[i], strlen(patterns[i]), (uint32_t)i + 10), 0);
    assert_int_equal(finder_build(f), 0);
    return f;
}
#define MAKE(...) make((const char *const[]){__VA_ARGS__}, ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static struct finder *make_forms(void) {
    struct finder *f = NULL;

    assert_int_equal(finder_new(&f), 0);
    assert_int_equal(finder_add_forms(f, value, strlen(value), 7), 0);
    assert_int_equal(finder_build(f), 0);
    return f;
}

static void test_find(void **state) {
    struct finder *f = MAKE("abcdef", "abcdefgh", "cdefghijk", "short");
    struct finder_match m = {0};

    assert_false(finder_find(f, "abcde", 5, &m));
    assert_false(finder_find(f, "", 0, &m));
    assert_false(finder_find(f, "xxshortxx", 9, &m)); /* shorter than FINDER_MIN */
    assert_true(finder_find(f, "xxabcdef", 8, &m));
    assert_int_equal(m.at, 2);
    assert_int_equal(m.len, 6);
    assert_int_equal(m.tag, 10);
    assert_true(finder_find(f, "abcdefghij", 10, &m));
    assert_int_equal(m.len, 8);
    assert_int_equal(m.tag, 11);
    finder_free(f);
    finder_free(NULL);
}

static void test_empty(void **state) {
    struct finder *f = MAKE("x");
    CLEANUP(finder_stream_done) struct finder_stream s = {0};
    uint32_t tag = 0;

    assert_int_equal(finder_watch(f, &s, "abc", 3, &tag), 0);
    assert_int_equal(s.len, 0);
    finder_free(f);
}

static void test_bounds(void **state) {
    CLEANUP(freep) char *big = calloc(1, FINDER_MAX + 1);
    struct finder *f = NULL;

    assert_int_equal(finder_new(&f), 0);
    assert_int_equal(finder_add(f, big, FINDER_MAX + 1, 0), -E2BIG);
    assert_int_equal(finder_add_forms(f, big, FINDER_MAX + 1, 0), -E2BIG);
    assert_int_equal(finder_add(f, big, FINDER_MAX, 0), 0);
    for (size_t i = 1; i < FINDER_PATTERNS_MAX; i++)
        assert_int_equal(finder_add(f, "abcdef", 6, 0), 0);
    assert_int_equal(finder_add(f, "abcdef", 6, 0), -E2BIG);
    finder_free(f);
}

static void test_watch(void **state) {
    CLEANUP(freep) char *noise = malloc(100000);
    struct finder *f = make_forms();
    size_t len = strlen(value);

    memset(noise, 's', 100000);
    for (size_t cut = 0; cut <= len; cut++) {
        CLEANUP(finder_stream_done) struct finder_stream s = {0};
        uint32_t tag = 0;

        assert_int_equal(finder_watch(f, &s, noise, 100000, &tag), 0);
        assert_int_equal(finder_watch(f, &s, value, cut, &tag), cut == len);
        assert_int_equal(finder_watch(f, &s, value + cut, len - cut, &tag), cut < len);
        assert_int_equal(tag, 7);
        assert_int_equal(finder_watch(f, &s, noise, 100000, &tag), 0);
    }
    for (size_t step = 1; step < 5; step++) { /* all of it in small pieces: at the piece that ends it, and only there */
        CLEANUP(finder_stream_done) struct finder_stream s = {0};
        uint32_t tag = 0;

        for (size_t at = 0; at < len; at += step)
            assert_int_equal(finder_watch(f, &s, value + at, MIN_OF(step, len - at), &tag), at + step >= len);
    }
    finder_free(f);
}

static void test_forms(void **state) {
    /* Made with other programs: python3 base64, urllib.parse, json; PHP; Go. */
    static const char *const rows[] = {
        "c2stYW50LWFwaTAzLVpxOS94KyI3IHNlY3JldD9+",         /* alone */
        "dXNlcjpzay1hbnQtYXBpMDMtWnE5L3grIjcgc2VjcmV0P34=", /* behind "user:" */
        "eDpzay1hbnQtYXBpMDMtWnE5L3grIjcgc2VjcmV0P34=",     /* behind "x:" */
        "YTpiOnNrLWFudC1hcGkwMy1acTkveCsiNyBzZWNyZXQ/fg==", /* behind "a:b:" */
        "YTpiOnNrLWFudC1hcGkwMy1acTkveCsiNyBzZWNyZXQ_fg",   /* the same for URLs */
        "736b2d616e742d6170693033",                         /* a beginning only, see below */
        "736b2d616e742d61706930332d5a71392f782b2237207365637265743f7e",
        "736B2D616E742D61706930332D5A71392F782B2237207365637265743F7E",
        "%73%6b%2d%61%6e%74%2d%61%70%69%30%33%2d%5a%71%39%2f%78%2b%22%37%20%73%65%63%72%65%74%3f%7e",
        "sk-ant-api03-Zq9%2Fx%2B%227%20secret%3F~", /* quote(safe='') */
        "sk-ant-api03-Zq9/x%2B%227%20secret%3F~",   /* quote() */
        "sk-ant-api03-Zq9%2Fx%2B%227+secret%3F~",   /* quote_plus() */
        "sk-ant-api03-Zq9%2Fx%2B%227+secret%3F%7E", /* application/x-www-form-urlencoded */
        "sk-ant-api03-Zq9%2fx%2b%227%20secret%3f~",
        "sk-ant-api03-Zq9/x+\\\"7 secret?~",   /* json.dumps() */
        "sk-ant-api03-Zq9\\/x+\\\"7 secret?~", /* json_encode() */
        "~?terces 7\"+x/9qZ-30ipa-tna-ks",
    };
    struct finder *f = make_forms();

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        struct finder_match m = {0};
        int n = snprintf(text, sizeof text, "noise %s noise", rows[i]);

        if (finder_find(f, text, (size_t)n, &m) == (i == 5))
            fail_msg("%s", rows[i]);
    }
    finder_free(f);
}

static void test_same_form_once(void **state) {
    struct finder *f = NULL;
    struct finder_match m = {0};

    assert_int_equal(finder_new(&f), 0);
    for (size_t i = 0; i < FINDER_PATTERNS_MAX / 12; i++) /* letters only: URL and JSON are as it is, there are 12 forms of 23 */
        assert_int_equal(finder_add_forms(f, "abcdefghijklmnop", 16, 1), 0);
    assert_int_equal(finder_build(f), 0);
    assert_true(finder_find(f, "abcdefghijklmnop", 16, &m));
    finder_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),  cmocka_unit_test(test_empty), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_watch), cmocka_unit_test(test_forms), cmocka_unit_test(test_same_form_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
