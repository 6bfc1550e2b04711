/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonfile.h"
#include "base/str.h"

enum { SIZE_MAX_ = 200 };

static int parse(const char *text, struct jsonfile *ret, struct err *err) {
    return jsonfile_parse("f", text, strlen(text), SIZE_MAX_, ret, err);
}

#define K(name) \
    { .key = name }
#define I(n) \
    { .index = n }

static void test_positions(void **state) {
    static const struct {
        const char *text;
        struct {
            const char *key;
            size_t index;
        } path[4];
        size_t n;
        bool key;
        const char *message;
    } table[] = {
        {"{}", {K(NULL)}, 0, false, "f:1:1: x"},
        {"  {\"a\": 1}", {K("a")}, 1, true, "f:1:4: a: x"},
        {"  {\"a\": 1}", {K("a")}, 1, false, "f:1:9: a: x"},
        {"{\n  \"a\": {\n    \"b\" :\n  [1,\n 22]}}", {K("a"), K("b"), I(1)}, 3, false, "f:5:2: a.b[1]: x"},
        {"{\n  \"a\": {\n    \"b\" :\n  [1,\n 22]}}", {K("a"), K("b"), I(1)}, 3, true, "f:5:2: a.b[1]: x"},
        {"{\"x\": {\"b\": 1}, \"b\": 2}", {K("b")}, 1, true, "f:1:17: b: x"},
        {"{\"x\": \"a, } ] \\\" b\", \"b\": 2}", {K("b")}, 1, true, "f:1:22: b: x"},
        {"{\"x\": [[1, {\"b\": 3}], []], \"b\": 2}", {K("b")}, 1, false, "f:1:33: b: x"},
        {"{\"\xc3\xa4\xc3\xb6\": 1, \"b\": 2}", {K("b")}, 1, true, "f:1:11: b: x"},
        {"{\"n\\u0065t\": 1}", {K("net")}, 1, true, "f:1:2: net: x"},
        {"{\"a\": 1, \"\\u001b\": 2}", {K("\033")}, 1, false, "f:1:20: \\x1b: x"},
        {"{\"a\": [1, [2, 3], 4]}", {K("a"), I(1), I(1)}, 3, false, "f:1:15: a[1][1]: x"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(jsonfile_done) struct jsonfile f = {0};
        struct jsonwalk w = {.file = &f};
        struct err err = {0};

        assert_int_equal(parse(table[i].text, &f, &err), 0);
        for (size_t k = 0; k < table[i].n; k++)
            if (table[i].path[k].key)
                jsonwalk_enter(&w, table[i].path[k].key);
            else
                jsonwalk_enter_index(&w, table[i].path[k].index);
        assert_int_equal((table[i].key ? jsonwalk_fail_key : jsonwalk_fail)(&w, &err, "%s", "x"), -EINVAL);
        assert_string_equal(err.msg, table[i].message);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        if (!table[i].key) {
            char at[32];

            snprintf(at, sizeof at, "f:%u:%u:", jsonwalk_position(&w).line, jsonwalk_position(&w).column);
            assert_true(str_starts(err.msg, at));
        }
    }
}

/* A walk to a place that is not in the file must not leave the text. */
static void test_no_such_place(void **state) {
    static const char *const texts[] = {"{}", "{\"a\": 1}", "{\"b\": []}", "{\"a\": {}}"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CLEANUP(jsonfile_done) struct jsonfile f = {0};
        struct jsonwalk w = {.file = &f};
        struct err err = {0};

        assert_int_equal(parse(texts[i], &f, &err), 0);
        jsonwalk_enter(&w, "b");
        jsonwalk_enter_index(&w, 70);
        jsonwalk_enter(&w, "c");
        assert_int_equal(jsonwalk_fail(&w, &err, "x"), -EINVAL);
        assert_true(str_ends(err.msg, "b[70].c: x"));
    }
}

static void test_bad_files(void **state) {
    static const struct {
        const char *text, *message;
    } table[] = {
        {"", "f:1:1: the file is empty (write {} for no settings)"},
        {" \n", "f:1:1: the file is empty (write {} for no settings)"},
        {"\xef\xbb\xbf{}", "f:1:1: the file starts with a byte order mark (save it as plain UTF-8)"},
        {"{\n\"\xff\": 1}", "f:2:2: byte 0xff is not valid UTF-8"},
        {"[]", "f:1:1: the file must hold an object, { ... }"},
        {"{\"a\": 1, \"a\": 2}", "f:1:10: key 'a' appears twice"},
        {"{\"a\": \"\\u0000\"}", "f:1:14: \\u0000 is not allowed in a string"},
        {"{\"a\": 99999999999999999999}", "f:1:26: the number is too large"},
        {"{", "f:1:1: not valid JSON: string or '}' expected near end of file"},
        {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
         "f:1:37: nested too deeply (at most 32 levels)"},
    };
    char big[SIZE_MAX_ + 2] = "";
    struct jsonfile f = {0};
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        assert_int_equal(parse(table[i].text, &f, &err), -EINVAL);
        assert_string_equal(err.msg, table[i].message);
        assert_null(f.root);
    }
    assert_int_equal(jsonfile_parse("f", "{}\0", 3, 10, &f, &err), -EINVAL);
    assert_string_equal(err.msg, "f:1:3: a NUL byte is not allowed here");
    memset(big, ' ', SIZE_MAX_ + 1);
    assert_int_equal(parse(big, &f, &err), -EINVAL);
    assert_string_equal(err.msg, "f:1:1: the file has 201 bytes (at most 200)");
}

/* -- tables ------------------------------------------------------------------------------------------------------------- */

static int read_number(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    if (!json_is_integer(v))
        return jsonwalk_wrong_type(w, v, "a number", err);
    if (json_integer_value(v) == 13)
        return jsonwalk_ctx(w, err_usage(err, "13 is unlucky"), err);
    *(json_int_t *)arg += json_integer_value(v);
    return 0;
}

static int read_numbers(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    return jsonwalk_elements(w, v, 3, read_number, arg, err);
}

static const struct jsonwalk_key keys[] = {{"number", read_number}, {"list", read_numbers}};

static void test_members_and_elements(void **state) {
    static const struct {
        const char *text, *message;
        int sum;
    } table[] = {
        {"{\"number\": 1, \"list\": [2, 3]}", NULL, 6},
        {"{}", NULL, 0},
        {"{\"number\": null}", "f:1:12: number: must be a number, not null", 0},
        {"{\"list\": {}}", "f:1:10: list: must be an array, not an object", 0},
        {"{\"list\": [1, 2, 3, 4]}", "f:1:10: list: has 4 elements (at most 3)", 0},
        {"{\"list\": [1, \"2\"]}", "f:1:14: list[1]: must be a number, not a string", 0},
        {"{\"number\": 13}", "f:1:12: number: 13 is unlucky", 0},
        {"{\"numbre\": 1}", "f:1:2: unknown key 'numbre' (did you mean 'number'?)", 0},
        {"{\"other\": 1}", "f:1:2: unknown key 'other' (known here: number, list)", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(jsonfile_done) struct jsonfile f = {0};
        struct jsonwalk w = {.file = &f};
        struct err err = {0};
        json_int_t sum = 0;
        int r;

        assert_int_equal(parse(table[i].text, &f, &err), 0);
        r = jsonwalk_members(&w, f.root, keys, ARRAY_LEN(keys), &sum, &err);
        assert_int_equal(r, table[i].message ? -EINVAL : 0);
        assert_string_equal(err.msg, table[i].message ? table[i].message : "");
        assert_int_equal(w.depth, 0);
        if (r == 0)
            assert_int_equal(sum, table[i].sum);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_no_such_place),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_members_and_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
