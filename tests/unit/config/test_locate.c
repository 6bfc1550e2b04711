/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "config/fields/locate.h"

#define K(name) \
    { .key = name }
#define I(n) \
    { .index = n }

static void test_table(void **state) {
    static const struct {
        const char *text;
        struct locate_step path[4];
        size_t n;
        enum locate_what what;
        unsigned line, column;
    } table[] = {
        {"{}", {}, 0, LOCATE_VALUE, 1, 1},
        {"  {\"a\": 1}", {K("a")}, 1, LOCATE_KEY, 1, 4},
        {"  {\"a\": 1}", {K("a")}, 1, LOCATE_VALUE, 1, 9},
        {"{\n  \"a\": {\n    \"b\" :\n  [1,\n 22]}}", {K("a"), K("b"), I(1)}, 3, LOCATE_VALUE, 5, 2},
        {"{\n  \"a\": {\n    \"b\" :\n  [1,\n 22]}}", {K("a"), K("b"), I(1)}, 3, LOCATE_KEY, 5, 2},
        {"{\"x\": {\"b\": 1}, \"b\": 2}", {K("b")}, 1, LOCATE_KEY, 1, 17},
        {"{\"x\": \"a, } ] \\\" b\", \"b\": 2}", {K("b")}, 1, LOCATE_KEY, 1, 22},
        {"{\"x\": [[1, {\"b\": 3}], []], \"b\": 2}", {K("b")}, 1, LOCATE_VALUE, 1, 33},
        {"{\"\xc3\xa4\xc3\xb6\": 1, \"b\": 2}", {K("b")}, 1, LOCATE_KEY, 1, 11},
        {"{\"n\\u0065t\": 1}", {K("net")}, 1, LOCATE_KEY, 1, 2},
        {"{\"\\ud83d\\ude00\\n\\\"\": 1}", {K("\xf0\x9f\x98\x80\n\"")}, 1, LOCATE_VALUE, 1, 22},
        {"{\"\\u00e4\\u20ac\": 1}", {K("\xc3\xa4\xe2\x82\xac")}, 1, LOCATE_KEY, 1, 2},
        {"[1, [2, 3], 4]", {I(2)}, 1, LOCATE_VALUE, 1, 13},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct position at = {0};

        assert_true(locate(table[i].text, strlen(table[i].text), table[i].path, table[i].n, table[i].what, &at));
        assert_int_equal(at.line, table[i].line);
        assert_int_equal(at.column, table[i].column);
    }
}

/* Bytes that never passed a parser: any answer is fine as long as nothing is read past the end. */
static void test_broken_text(void **state) {
    static const char *const texts[] = {
        "", "{", "{\"a", "{\"a\\", "{\"a\":", "{\"b\":[", "{\"b\":1", "{\"\\u00", "{\"\\u0000\":1}", "[", "nonsense"};
    const struct locate_step path[] = {K("a"), I(3)};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct position at = {7, 7};

        assert_false(locate(texts[i], strlen(texts[i]), path, ARRAY_LEN(path), LOCATE_KEY, &at));
        assert_int_equal(at.line, 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_broken_text)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
