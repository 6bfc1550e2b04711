/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/strv.h"

static void add_all(struct jsonout *j) {
    char a[] = "a", b[] = "b";
    char *words[] = {a, b, NULL};
    const struct strv list = {.v = words, .len = 2};

    jsonout_open(j, NULL, '{');
    jsonout_text(j, "text", "a\"b\n");
    jsonout_text(j, "none", NULL);
    jsonout_u64(j, "most", UINT64_MAX);
    jsonout_int(j, "least", INT64_MIN);
    jsonout_open(j, "in", '{');
    jsonout_bool(j, "yes", true);
    jsonout_null(j, "null");
    jsonout_close(j, '}');
    jsonout_list(j, "list", &list);
    jsonout_list(j, "empty", &(struct strv){0});
    jsonout_time(j, "time", 1000000000ull * 86400);
    jsonout_time(j, "never", 0);
    jsonout_key(j, "raw");
    buf_adds(j->to, "1.5");
    jsonout_open(j, "elements", '[');
    jsonout_u64(j, NULL, 1);
    jsonout_open(j, NULL, '{');
    jsonout_close(j, '}');
    jsonout_open(j, NULL, '[');
    jsonout_close(j, ']');
    jsonout_close(j, ']');
    jsonout_close(j, '}');
}

static void test_members(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    add_all(&(struct jsonout){.to = &b});
    assert_string_equal(
        buf_str(&b), "{\"text\": \"a\\\"b\\n\", \"none\": null, \"most\": 18446744073709551615, \"least\": -9223372036854775808, "
                     "\"in\": {\"yes\": true, \"null\": null}, \"list\": [\"a\", \"b\"], \"empty\": [], "
                     "\"time\": \"1970-01-02T00:00:00Z\", \"never\": null, \"raw\": 1.5, \"elements\": [1, {}, []]}");
}

static void test_compact(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    add_all(&(struct jsonout){.to = &b, .compact = true});
    assert_string_equal(buf_str(&b),
                        "{\"text\":\"a\\\"b\\n\",\"none\":null,\"most\":18446744073709551615,\"least\":-9223372036854775808,"
                        "\"in\":{\"yes\":true,\"null\":null},\"list\":[\"a\",\"b\"],\"empty\":[],"
                        "\"time\":\"1970-01-02T00:00:00Z\",\"never\":null,\"raw\":1.5,\"elements\":[1,{},[]]}");
}

/* The list of `bawn ps --json`, and one line after another. */
static void test_lines(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    struct jsonout j = {.to = &b};

    jsonout_open(&j, NULL, '[');
    for (int i = 0; i < 2; i++) {
        jsonout_break(&j, "\n  ");
        jsonout_open(&j, NULL, '{');
        jsonout_int(&j, "n", i);
        jsonout_close(&j, '}');
    }
    buf_adds(&b, "\n]\n");
    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "ends", "in a {"); /* inside of a string: the quote is the last byte */
    jsonout_text(&j, "more", "");
    jsonout_close(&j, '}');
    assert_string_equal(buf_str(&b), "[\n  {\"n\": 0},\n  {\"n\": 1}\n]\n{\"ends\": \"in a {\", \"more\": \"\"}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_compact),
        cmocka_unit_test(test_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
