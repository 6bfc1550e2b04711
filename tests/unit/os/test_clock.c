/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "os/clock.h"

static void test_text(void **state) {
    static const uint64_t moment = 1769860800123456789; /* 2026-01-31 12:00 */
    static const struct {
        uint64_t ns;
        enum clock_format f;
        const char *want;
    } table[] = {
        {moment, CLOCK_ISO, "2026-01-31T12:00:00Z"},           {moment, CLOCK_ISO_MS, "2026-01-31T12:00:00.123Z"},
        {moment, CLOCK_ISO_US, "2026-01-31T12:00:00.123456Z"}, {moment, CLOCK_STAMP, "20260131T120000Z"},
        {0, CLOCK_ISO_US, "1970-01-01T00:00:00.000000Z"},      {UINT64_MAX, CLOCK_ISO_MS, "2554-07-21T23:34:33.709Z"},
    };
    char text[CLOCK_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_string_equal(clock_text(table[i].ns, table[i].f, text), table[i].want);
}

/* As the C library has it, at the edges of many days. */
static void test_calendar(void **state) {
    enum { DAY = 86400, STEP = 13 };

    (void)state;
    for (uint64_t day = 0; day < UINT64_MAX / 1000000000 / DAY; day += STEP)
        for (time_t edge = -1; edge <= 0; edge++) {
            time_t t = (time_t)MAX_OF(day, UINT64_C(1)) * DAY + edge;
            char text[CLOCK_TEXT_SIZE], want[CLOCK_TEXT_SIZE];
            struct tm tm;

            gmtime_r(&t, &tm);
            strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%SZ", &tm);
            assert_string_equal(clock_text((uint64_t)t * 1000000000, CLOCK_ISO, text), want);
        }
}

static void test_left(void **state) {
    uint64_t now = clock_ms();

    (void)state;
    assert_int_equal(clock_left_ms(0), -1);
    assert_int_equal(clock_left_ms(now), 0);
    assert_int_equal(clock_left_ms(1), 0);
    assert_true(clock_left_ms(now + 3600000) > 0 && clock_left_ms(now + 3600000) <= 3600000);
    assert_int_equal(clock_left_ms(UINT64_MAX), INT_MAX);
}

static void test_sooner(void **state) {
    (void)state;
    assert_int_equal(clock_sooner(-1, -1), -1);
    assert_int_equal(clock_sooner(-1, 5), 5);
    assert_int_equal(clock_sooner(5, -1), 5);
    assert_int_equal(clock_sooner(0, 5), 0);
    assert_int_equal(clock_sooner(7, 5), 5);
}

static void test_units(void **state) {
    uint64_t ms = clock_ms(), us = clock_us();

    (void)state;
    assert_true(us / 1000 >= ms);
    assert_true(clock_coarse() <= clock_mark());
}

static void test_pass(void **state) {
    uint64_t mark = clock_mark();

    (void)state;
    clock_pass(mark);
    assert_true(clock_coarse() > mark);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_calendar), cmocka_unit_test(test_left),
        cmocka_unit_test(test_sooner), cmocka_unit_test(test_units),    cmocka_unit_test(test_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
