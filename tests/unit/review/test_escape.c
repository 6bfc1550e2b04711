/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>

#include "review/report/escape.h"

struct row {
    const char *in, *out;
};

static void text_is_made_visible(void **state UNUSED) {
    static const struct row rows[] = {
        {"plain text", "plain text"},
        {"\033[31mred", "\\x1b[31mred"},
        {"a\tb\rc\nd\177", "a\\x09b\\x0dc\\x0ad\\x7f"},
        {"gr\xc3\xbc\xc3\x9f \xe6\x97\xa5 \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5 \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "\\u{9b}31m"}, /* CSI as one character */
        {"\x9b"
         "31m",
         "\\x9b"
         "31m"}, /* CSI as one byte */
        {"a\xe2\x80\xaegpj.exe", "a\\u{202e}gpj.exe"},
        {"\xe2\x81\xa6x\xe2\x81\xa9", "\\u{2066}x\\u{2069}"},
        {"ad\xe2\x80\x8bmin", "ad\\u{200b}min"},
        {"\xef\xbb\xbf#!", "\\u{feff}#!"},
        {"\xf3\xa0\x81\xa1", "\\u{e0061}"}, /* tag characters carry text that nobody sees */
        {"\xc0\xaf\xed\xa0\x80\xff", "\\xc0\\xaf\\xed\\xa0\\x80\\xff"},
        {"cut\xe2\x80", "cut\\xe2\\x80"},
        {"\\x1b", "\\x1b"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);

        escape_text(&b, rows[i].in);
        assert_string_equal(buf_str(&b), rows[i].out);
    }
}

static void content_keeps_tabs_and_line_ends(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);

    escape_content(&b, "\ta\rb\r", 5, true);
    assert_string_equal(buf_str(&b), "\ta\\x0db\r");
    buf_clear(&b);
    escape_content(&b, "\ta\rb\r", 5, false);
    assert_string_equal(buf_str(&b), "\ta\\x0db\\x0d");
    buf_clear(&b);
    escape_content(&b, "a\0b", 3, false);
    assert_string_equal(buf_str(&b), "a\\x00b");
    buf_clear(&b);
    escape_content(&b, "\xe2\x80\xae", 2, false); /* the third byte is not part of it */
    assert_string_equal(buf_str(&b), "\\xe2\\x80");
}

static void json_loses_nothing(void **state UNUSED) {
    static const char text[] = "q\"b\\ \033[1m \xe2\x80\xae \xf3\xa0\x81\xa1 \xf0\x9f\x98\x80 \n\t";
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);
    json_t *value;

    escape_json(&b, text, strlen(text));
    for (size_t i = 0; i < b.len; i++)
        assert_true((unsigned char)b.data[i] >= 0x20 && b.data[i] != 0x7f);
    assert_null(strstr(b.data, "\xe2\x80\xae"));
    value = json_loads(b.data, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_string_equal(json_string_value(value), text);
    json_decref(value);
}

static void json_replaces_what_is_not_utf8(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1000);

    escape_json(&b,
                "a\xff"
                "b",
                3);
    assert_string_equal(buf_str(&b), "\"a\xef\xbf\xbd"
                                     "b\"");
}

static void git_names(void **state UNUSED) {
    static const struct row rows[] = {
        {"src/a b.c", "\"a/src/a b.c\""}, {"\xc3\xa4.c", "a/\xc3\xa4.c"},           {"a\"b", "\"a/a\\042b\""},
        {"a\\b", "\"a/a\\134b\""},        {"\033]0;x\007", "\"a/\\033]0;x\\007\""}, {"\xe2\x80\xae", "\"a/\\342\\200\\256\""},
        {"\xff", "\"a/\\377\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(1000);

        escape_git_name(&b, "a/", rows[i].in);
        assert_string_equal(buf_str(&b), rows[i].out);
    }
}

static void uris(void **state UNUSED) {
    CLEANUP(buf_done) struct buf uri = BUF_INIT(1000);

    escape_uri(&uri, "a b/%41#\xc3\xa4\"");
    assert_string_equal(buf_str(&uri), "a%20b/%2541%23%C3%A4%22");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_made_visible),
        cmocka_unit_test(content_keeps_tabs_and_line_ends),
        cmocka_unit_test(json_loses_nothing),
        cmocka_unit_test(json_replaces_what_is_not_utf8),
        cmocka_unit_test(git_names),
        cmocka_unit_test(uris),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
