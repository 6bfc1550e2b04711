/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "review/report/diff.h"

static struct buf text(const char *s) {
    struct buf b = BUF_INIT(1024 * 1024);

    buf_adds(&b, s);
    return b;
}

static int merge(const char *base, const char *ours, const char *theirs, struct buf *ret) {
    CLEANUP(buf_done) struct buf b = text(base), o = text(ours), t = text(theirs);
    struct err err = {0};

    return diff_merge(&b, &o, &t, ret, &err);
}

static void different_lines_are_merged(void **state UNUSED) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1000);

    assert_int_equal(merge("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", &out), 0);
    assert_string_equal(buf_str(&out), "one\n2\n3\n4\nfive\n");
}

static void one_side_that_changed_nothing(void **state UNUSED) {
    CLEANUP(buf_done) struct buf ours = BUF_INIT(1000), theirs = BUF_INIT(1000), both = BUF_INIT(1000);

    assert_int_equal(merge("a\nb\n", "a\nb\n", "a\nc\n", &theirs), 0);
    assert_string_equal(buf_str(&theirs), "a\nc\n");
    assert_int_equal(merge("a\nb\n", "a\nc\n", "a\nb\n", &ours), 0);
    assert_string_equal(buf_str(&ours), "a\nc\n");
    assert_int_equal(merge("a\nb\n", "a\nc\n", "a\nc\n", &both), 0);
    assert_string_equal(buf_str(&both), "a\nc\n");
}

static void the_same_line_is_a_conflict(void **state UNUSED) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1000);

    assert_int_equal(merge("a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n", &out), 1);
    assert_int_equal(out.len, 0); /* no markers, nothing half-done */
}

static void both_added_a_file(void **state UNUSED) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1000);

    assert_int_equal(merge("", "ours\n", "theirs\n", &out), 1);
}

static void line_ends_stay(void **state UNUSED) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1000);

    assert_int_equal(merge("1\r\n2\r\n3\r\n4", "one\r\n2\r\n3\r\n4", "1\r\n2\r\n3\r\nfour", &out), 0);
    assert_string_equal(buf_str(&out), "one\r\n2\r\n3\r\nfour");
}

static void binaries_are_not_merged(void **state UNUSED) {
    CLEANUP(buf_done)
    struct buf b = text("1\n2\n3\n4\n"), o = text("one\n2\n3\n4\n"), t = text("1\n2\n3\n4\n"), out = BUF_INIT(1000);
    struct err err = {0};

    buf_add(&t, "\0", 1);
    assert_int_equal(diff_merge(&b, &o, &t, &out, &err), 1);
}

static void a_result_past_its_ceiling_is_refused(void **state UNUSED) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(4);

    assert_int_equal(merge("a\nb\n", "a\nb\n", "a\nlonger\n", &out), -EFBIG);
}

static int begin(void **state UNUSED) {
    struct err err;

    return diff_begin(&err);
}

static int end(void **state UNUSED) {
    diff_end();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_lines_are_merged),
        cmocka_unit_test(one_side_that_changed_nothing),
        cmocka_unit_test(the_same_line_is_a_conflict),
        cmocka_unit_test(both_added_a_file),
        cmocka_unit_test(line_ends_stay),
        cmocka_unit_test(binaries_are_not_merged),
        cmocka_unit_test(a_result_past_its_ceiling_is_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
