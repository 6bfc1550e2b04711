/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"

static struct buf seen = BUF_INIT(1 << 20);
static unsigned calls;

static void sink(const char *line, size_t len) {
    assert_int_equal(strlen(line), len);
    buf_add(&seen, line, len);
    calls++;
}

static int setup(void **state) {
    buf_clear(&seen);
    calls = 0;
    log_set_sink(sink);
    return 0;
}

static int teardown(void **state) {
    log_set_sink(NULL);
    buf_done(&seen);
    return 0;
}

static void test_line(void **state) {
    log_line("%d of %s", 3, "four");
    assert_string_equal(buf_str(&seen), "bawn: 3 of four\n");
    log_line("%s", "");
    assert_string_equal(buf_str(&seen), "bawn: 3 of four\nbawn: \n");
}

/* Names of files and commands go through here: no line of ours can be forged, no terminal reprogrammed. */
static void test_hostile_text(void **state) {
    log_line("cannot open '%s'", "x\nbawn: all is well\x1b]0;title\a\xc2\x9b\xff");
    assert_string_equal(buf_str(&seen), "bawn: cannot open 'x\\x0abawn: all is well\\x1b]0;title\\x07\\xc2\\x9b\\xff'\n");
    assert_int_equal(calls, 1);
}

static void test_err(void **state) {
    struct err err = {0};

    log_err(&err);
    err_sys(&err, -EPERM, "open");
    log_err(&err);
    assert_string_equal(buf_str(&seen), "bawn: unknown error\nbawn: open: Operation not permitted\n");
}

/* The longest line, every byte of which grows by escaping, still arrives in one piece with its newline. */
static void test_longest_line(void **state) {
    static char text[20000];

    memset(text, 0x01, sizeof text - 1);
    log_line("%s", text);
    assert_int_equal(calls, 1);
    assert_true(str_starts(buf_str(&seen), "bawn: \\x01\\x01"));
    assert_true(str_ends(buf_str(&seen), "\\x01\n"));
    assert_true(seen.len > 4 * 8000);
}

static void test_stderr_without_a_sink(void **state) {
    int pipe_[2], saved = dup(STDERR_FILENO);
    char got[64] = "";

    assert_int_equal(pipe(pipe_), 0);
    dup2(pipe_[1], STDERR_FILENO);
    log_set_sink(NULL);
    log_line("to stderr");
    dup2(saved, STDERR_FILENO);
    close(pipe_[1]);
    assert_true(fd_read_some(pipe_[0], got, sizeof got - 1) > 0);
    assert_string_equal(got, "bawn: to stderr\n");
    assert_int_equal(calls, 0);
    close(pipe_[0]);
    close(saved);
}

#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        LOG_TEST(test_line),         LOG_TEST(test_hostile_text),          LOG_TEST(test_err),
        LOG_TEST(test_longest_line), LOG_TEST(test_stderr_without_a_sink),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
