/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "review/risk/rules.h"
#include "workspace/hide/ignore.h"

static struct ignore *rules_of(const char *top, const char *below) {
    struct ignore *ig = ignore_new();
    struct err err = {0};

    assert_non_null(ig);
    assert_int_equal(ignore_add_file(ig, "", ".sandboxignore", top, strlen(top), &err), 0);
    if (below)
        assert_int_equal(ignore_add_file(ig, "web", "web/.sandboxignore", below, strlen(below), &err), 0);
    return ig;
}

static void rules_arrive_as_they_were(void **state UNUSED) {
    CLEANUP(ignore_freep) struct ignore *now = rules_of("*.pem\n", "!test.pem\n"), *accepted = rules_of(".env\n", NULL);
    CLEANUP(ignore_freep) struct ignore *protect = rules_of("Makefile\n", NULL);
    CLEANUP(review_rules_done) struct review_rules got = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_MAX);
    struct err err = {0};

    review_rules_write(&(struct review_rules){now, accepted, protect}, &b);
    assert_int_equal(review_rules_read(buf_str(&b), b.len, &got, &err), 0);
    assert_int_equal(ignore_match(got.protect, "Makefile", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(got.now, "a.pem", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(got.now, "web/test.pem", false), IGNORE_REINCLUDED);
    assert_int_equal(ignore_match(got.now, ".env", false), IGNORE_NONE);
    assert_int_equal(ignore_match(got.accepted, ".env", false), IGNORE_EXCLUDED);
}

static void no_second_set_is_not_an_empty_one(void **state UNUSED) {
    CLEANUP(ignore_freep) struct ignore *now = rules_of("x\n", NULL), *empty = ignore_new();
    CLEANUP(review_rules_done) struct review_rules none = {0}, some = {0};
    CLEANUP(buf_done) struct buf without = BUF_INIT(RULES_MAX), with = BUF_INIT(RULES_MAX);
    struct err err = {0};

    review_rules_write(&(struct review_rules){.now = now}, &without);
    assert_int_equal(review_rules_read(buf_str(&without), without.len, &none, &err), 0);
    assert_null(none.accepted);
    assert_null(none.protect);
    review_rules_write(&(struct review_rules){.now = now, .accepted = empty}, &with);
    assert_int_equal(review_rules_read(buf_str(&with), with.len, &some, &err), 0);
    assert_non_null(some.accepted);
}

static void anything_else_is_refused(void **state UNUSED) {
    CLEANUP(ignore_freep) struct ignore *now = rules_of("*.pem\n", NULL);
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_MAX);
    struct review_rules got = {0};
    struct err err = {0};

    review_rules_write(&(struct review_rules){.now = now}, &b);
    for (size_t cut = 1; cut < b.len; cut++)
        assert_int_equal(review_rules_read(b.data, cut, &got, &err), -EBADMSG);
    b.data[0] = 7;
    assert_int_equal(review_rules_read(b.data, b.len, &got, &err), -EBADMSG);
    assert_null(got.now);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_arrive_as_they_were),
        cmocka_unit_test(no_second_set_is_not_an_empty_one),
        cmocka_unit_test(anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
