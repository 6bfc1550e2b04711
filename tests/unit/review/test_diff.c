/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "os/fd.h"
#include "review/report/diff.h"

static struct buf text(const char *s) {
    struct buf b = BUF_INIT(16 * 1024 * 1024);

    buf_adds(&b, s);
    return b;
}

static void expect_diff(const char *old_, const char *new_, bool keep_cr, const char *expected) {
    CLEANUP(buf_done) struct buf a = text(old_), b = text(new_), out = BUF_INIT(64 * 1024);
    struct diff_count n = {0};
    struct err err = {0};

    assert_int_equal(diff_hunks(&a, &b, &(struct diff_style){.keep_cr = keep_cr}, &out, &n, &err), 0);
    assert_string_equal(buf_str(&out), expected);
}

static void hunks_as_git_prints_them(void **state UNUSED) {
    expect_diff("a\nb\nc\n", "a\nx\nc\n", false, "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
    expect_diff("", "a\nb\n", false, "@@ -0,0 +1,2 @@\n+a\n+b\n");
    expect_diff("a\n", "", false, "@@ -1 +0,0 @@\n-a\n");
    expect_diff("same\n", "same\n", false, "");
}

static void a_missing_newline_is_said(void **state UNUSED) {
    expect_diff("a\n", "a", false, "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
    expect_diff("a", "b", false, "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n");
}

static void content_is_escaped(void **state UNUSED) {
    expect_diff("a\n", "\033]52;c;x\007\n", false, "@@ -1 +1 @@\n-a\n+\\x1b]52;c;x\\x07\n");
    expect_diff("if (\xe2\x80\xae x)\n", "", false, "@@ -1 +0,0 @@\n-if (\\u{202e} x)\n");
    expect_diff("a\r\n", "b\r\n", false, "@@ -1 +1 @@\n-a\\x0d\n+b\\x0d\n");
    expect_diff("a\r\n", "b\r\n", true, "@@ -1 +1 @@\n-a\r\n+b\r\n");
}

static void heads_of_hunks_are_escaped(void **state UNUSED) {
    CLEANUP(buf_done) struct buf a = text("f\033[2J\xe2\x80\x8bunction(void)\n 1\n 2\n 3\n 4\n 5\n 6\n 7\n 8\n");
    CLEANUP(buf_done)
    struct buf b = text("f\033[2J\xe2\x80\x8bunction(void)\n 1\n 2\n 3\n 4\n 5\n 6\n 7\n 9\n"), out = BUF_INIT(64 * 1024);
    struct diff_count n = {0};
    struct err err = {0};

    assert_int_equal(diff_hunks(&a, &b, &(struct diff_style){0}, &out, &n, &err), 0);
    assert_non_null(strstr(buf_str(&out), "@@ f\\x1b[2J"));
    assert_null(strchr(buf_str(&out), '\033'));
}

static void colours_only_if_told(void **state UNUSED) {
    CLEANUP(buf_done) struct buf a = text("a\n"), b = text("b\n"), out = BUF_INIT(64 * 1024);
    struct diff_count n = {0};
    struct err err = {0};

    assert_int_equal(diff_hunks(&a, &b, &(struct diff_style){.colour = true}, &out, &n, &err), 0);
    assert_string_equal(buf_str(&out), "\033[36m@@ -1 +1 @@\033[m\n\033[31m-a\033[m\n\033[32m+b\033[m\n");
}

static void lines_are_counted_without_output(void **state UNUSED) {
    CLEANUP(buf_done) struct buf a = text("1\n2\n3\n4\n"), b = text("1\n3\n4\n5\n6");
    struct diff_count n = {0};
    struct err err = {0};

    assert_int_equal(diff_hunks(&a, &b, &(struct diff_style){0}, NULL, &n, &err), 0);
    assert_int_equal(n.added, 2);
    assert_int_equal(n.removed, 1);
    assert_int_equal(diff_lines(&b), 5);
}

static void too_many_lines_are_refused(void **state UNUSED) {
    CLEANUP(buf_done) struct buf a = BUF_INIT(DIFF_FILE_MAX), b = text("x\n");
    struct diff_count n = {0};
    struct err err = {0};

    for (size_t i = 0; i <= DIFF_LINES_MAX; i++)
        buf_addc(&a, '\n');
    assert_int_equal(diff_hunks(&a, &b, &(struct diff_style){0}, NULL, &n, &err), -EFBIG);
    assert_int_equal(diff_hunks(&b, &a, &(struct diff_style){0}, NULL, &n, &err), -EFBIG);
}

static void an_output_past_its_ceiling_is_refused(void **state UNUSED) {
    CLEANUP(buf_done) struct buf a = text("a\n"), b = text("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n"), out = BUF_INIT(20);
    struct diff_count n = {0};
    struct err err = {0};

    assert_int_equal(diff_hunks(&a, &b, &(struct diff_style){0}, &out, &n, &err), -EFBIG);
}

static void binaries_are_known(void **state UNUSED) {
    CLEANUP(buf_done)
    struct buf nul = text("text"), control = text("\001\002\003abc"), plain = text("ein S\xc3\xa4tzchen\r\n\t\033[1mok");
    CLEANUP(buf_done) struct buf none = {0};

    buf_add(&nul, "\0", 1);
    assert_true(diff_is_binary(&nul));
    assert_true(diff_is_binary(&control));
    assert_false(diff_is_binary(&plain));
    assert_false(diff_is_binary(&none));
}

static void loading_stops_at_the_ceiling(void **state UNUSED) {
    CLEANUP(closep) int fd = memfd_create("test", MFD_CLOEXEC);
    CLEANUP(buf_done) struct buf small = BUF_INIT(9), enough = BUF_INIT(10);

    assert_int_equal(fd_write_all(fd, "0123456789", 10), 0);
    assert_int_equal(diff_load(fd, &enough), 0);
    assert_int_equal(enough.len, 10);
    assert_int_equal(diff_load(fd, &small), -EFBIG);
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
        cmocka_unit_test(hunks_as_git_prints_them),   cmocka_unit_test(a_missing_newline_is_said),
        cmocka_unit_test(content_is_escaped),         cmocka_unit_test(heads_of_hunks_are_escaped),
        cmocka_unit_test(colours_only_if_told),       cmocka_unit_test(lines_are_counted_without_output),
        cmocka_unit_test(too_many_lines_are_refused), cmocka_unit_test(an_output_past_its_ceiling_is_refused),
        cmocka_unit_test(binaries_are_known),         cmocka_unit_test(loading_stops_at_the_ceiling),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
