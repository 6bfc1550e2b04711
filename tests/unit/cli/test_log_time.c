/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "cli/log_time.h"

static const struct opt since = {.name = "since"};

static void times_that_can_be_compared_as_text(void **state UNUSED) {
    static const char *const table[][2] = {{"2026-01", "2026-01"},
                                           {"2026-01-31", "2026-01-31"},
                                           {"2026-01-31T12", "2026-01-31T12"},
                                           {"2026-01-31T12:00", "2026-01-31T12:00"},
                                           {"2026-01-31T12:00:07Z", "2026-01-31T12:00:07"},
                                           {"2026-01-31T12:00:07.123Z", "2026-01-31T12:00:07.123"}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char text[LOG_TIME_SIZE];

        assert_int_equal(log_time_take(&since, table[i][0], text, NULL), 0);
        assert_string_equal(text, table[i][1]);
    }
}

/* "2026-1-5" would sort behind every day of May. */
static void times_that_cannot(void **state UNUSED) {
    static const char *const table[] = {"",
                                        "-",
                                        "1-",
                                        "2026-1-5",
                                        "2026-1",
                                        "2026-01-5",
                                        "05-01-2026",
                                        "2026-01-31T",
                                        "2026-01-31T12:0",
                                        "2026-01-31 12:00",
                                        "2026-01-31T12:00:07.",
                                        "2026-01-31T12:00:07.1234567890",
                                        "Z"};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char text[LOG_TIME_SIZE];
        struct err err = {0};

        if (log_time_take(&since, table[i], text, &err) == 0)
            fail_msg("'%s' is taken as '%s'", table[i], text);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
    }
}

static void how_long_ago(void **state UNUSED) {
    char text[LOG_TIME_SIZE];

    assert_int_equal(log_time_take(&since, "10m", text, NULL), 0);
    assert_int_equal(strlen(text), 19);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_that_can_be_compared_as_text),
        cmocka_unit_test(times_that_cannot),
        cmocka_unit_test(how_long_ago),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
