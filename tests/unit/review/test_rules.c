#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "review/rules.h"
#include "workspace/ignore.h"

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
    CLEANUP(ignore_freep) struct ignore *got_now = NULL, *got_accepted = NULL;
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_MAX);
    struct err err = {0};

    review_rules_write(now, accepted, &b);
    assert_int_equal(review_rules_read(buf_str(&b), b.len, &got_now, &got_accepted, &err), 0);
    assert_int_equal(ignore_match(got_now, "a.pem", false), IGNORE_EXCLUDED);
    assert_int_equal(ignore_match(got_now, "web/test.pem", false), IGNORE_REINCLUDED);
    assert_int_equal(ignore_match(got_now, ".env", false), IGNORE_NONE);
    assert_int_equal(ignore_match(got_accepted, ".env", false), IGNORE_EXCLUDED);
}

static void no_second_set_is_not_an_empty_one(void **state UNUSED) {
    CLEANUP(ignore_freep) struct ignore *now = rules_of("x\n", NULL), *empty = ignore_new();
    CLEANUP(ignore_freep) struct ignore *got = NULL, *none = NULL, *got2 = NULL, *some = NULL;
    CLEANUP(buf_done) struct buf without = BUF_INIT(RULES_MAX), with = BUF_INIT(RULES_MAX);
    struct err err = {0};

    review_rules_write(now, NULL, &without);
    assert_int_equal(review_rules_read(buf_str(&without), without.len, &got, &none, &err), 0);
    assert_null(none);
    review_rules_write(now, empty, &with);
    assert_int_equal(review_rules_read(buf_str(&with), with.len, &got2, &some, &err), 0);
    assert_non_null(some);
}

static void anything_else_is_refused(void **state UNUSED) {
    CLEANUP(ignore_freep) struct ignore *now = rules_of("*.pem\n", NULL);
    CLEANUP(buf_done) struct buf b = BUF_INIT(RULES_MAX);
    struct ignore *a = NULL, *c = NULL;
    struct err err = {0};

    review_rules_write(now, NULL, &b);
    for (size_t cut = 1; cut < b.len; cut++)
        assert_int_equal(review_rules_read(b.data, cut, &a, &c, &err), -EBADMSG);
    b.data[0] = 7;
    assert_int_equal(review_rules_read(b.data, b.len, &a, &c, &err), -EBADMSG);
    assert_null(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_arrive_as_they_were),
        cmocka_unit_test(no_second_set_is_not_an_empty_one),
        cmocka_unit_test(anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
