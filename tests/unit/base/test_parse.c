/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"

#define K (1ull << 10)
#define M (1ull << 20)
#define G (1ull << 30)
#define T (1ull << 40)

enum { UNTOUCHED = 4711 };

struct row {
    const char *s;
    uint64_t value; /* 0: refused */
    const char *message;
};

typedef int parser(const char *s, uint64_t *ret, struct err *err);

static void check_rows(parser *parse, const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint64_t v = UNTOUCHED;
        struct err err = {0};
        int r = parse(rows[i].s, &v, &err);

        if (rows[i].value) {
            if (r != 0 || v != rows[i].value)
                fail_msg("'%s': %d, %" PRIu64 ", '%s'", rows[i].s, r, v, err.msg);
            continue;
        }
        if (r != -EINVAL || v != UNTOUCHED || !strstr(err.msg, rows[i].message))
            fail_msg("'%s': %d, %" PRIu64 ", '%s'", rows[i].s, r, v, err.msg);
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        assert_int_equal(parse(rows[i].s, &v, NULL), -EINVAL);
    }
}

#define NO_SIZE 0, "is not a size"
#define NO_DURATION 0, "is not a duration"
#define NO_CPUS 0, "is not a CPU count"

static void test_size(void **state) {
    static const struct row rows[] = {
        {"512m", 512 * M},
        {"4g", 4 * G},
        {"2G", 2 * G},
        {"1.5g", 3 * G / 2},
        {"1048576", M},
        {"1", 1},
        {"1b", 1},
        {"1k", K},
        {"1KB", K},
        {"1KiB", K},
        {"1mib", M},
        {"3gB", 3 * G},
        {"1t", T},
        {".5g", G / 2},
        {"0.001k", 1},
        {"1.125m", 9 * M / 8},
        {"007m", 7 * M},
        {"1024t", 1024 * T},
        {"1125899906842624", 1024 * T},
        {"-1", NO_SIZE},
        {"+1", NO_SIZE},
        {"", NO_SIZE},
        {"g", NO_SIZE},
        {".", NO_SIZE},
        {".g", NO_SIZE},
        {"1.", NO_SIZE},
        {"1.g", NO_SIZE},
        {"1.5.2", NO_SIZE},
        {"1..5", NO_SIZE},
        {"1.2345g", NO_SIZE},
        {" 1g", NO_SIZE},
        {"1g ", NO_SIZE},
        {"1 g", NO_SIZE},
        {"1g\n", NO_SIZE},
        {"0x10", NO_SIZE},
        {"1e3", NO_SIZE},
        {"1gg", NO_SIZE},
        {"1p", NO_SIZE},
        {"1ib", NO_SIZE},
        {"1,5g", NO_SIZE},
        {"inf", NO_SIZE},
        {"nan", NO_SIZE},
        {"\xd9\xa1", NO_SIZE}, /* an Arabic digit */
        {"0", 0, "must be more than 0"},
        {"0g", 0, "must be more than 0"},
        {"0.5", 0, "must be more than 0"},
        {"0.000g", 0, "must be more than 0"},
        {"999999999t", 0, "too large"},
        {"1025t", 0, "too large"},
        {"1024.001t", 0, "too large"},
        {"1125899906842625", 0, "too large"},
        {"99999999999999999999999999", NO_SIZE},
    };

    check_rows(parse_size, rows, ARRAY_LEN(rows));
}

/* Digits around the place where the arithmetic (scaled by 1000, in 64 bits) would wrap around into something small. */
static void test_huge_digits_never_wrap(void **state) {
    static const char *const units[] = {"", "t", "k", "b"};

    for (uint64_t n = UINT64_MAX / 1000 - 50; n < UINT64_MAX / 1000 + 50; n++)
        for (size_t i = 0; i < ARRAY_LEN(units); i++) {
            char s[40];
            uint64_t v = UNTOUCHED;

            snprintf(s, sizeof s, "%" PRIu64 "%s", n, units[i]);
            if (parse_size(s, &v, NULL) != -EINVAL || v != UNTOUCHED)
                fail_msg("'%s' is %" PRIu64, s, v);
            snprintf(s, sizeof s, "%" PRIu64, n);
            assert_int_equal(parse_duration(s, &v, NULL), -EINVAL);
            assert_int_equal(parse_cpus(s, &v, NULL), -EINVAL);
        }
}

static void test_duration(void **state) {
    static const struct row rows[] = {
        {"30", 30000},
        {"30s", 30000},
        {"5m", 300000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"500ms", 500},
        {"1ms", 1},
        {"0.5", 500},
        {"1.5h", 5400000},
        {"0.001s", 1},
        {"5M", 300000},
        {"365d", 365 * 86400000ull},
        {"", NO_DURATION},
        {"s", NO_DURATION},
        {"-1s", NO_DURATION},
        {"1 s", NO_DURATION},
        {"1s ", NO_DURATION},
        {" 1s", NO_DURATION},
        {"1h30m", NO_DURATION},
        {"1w", NO_DURATION},
        {"1e3", NO_DURATION},
        {"1.5.2s", NO_DURATION},
        {"0.0001s", NO_DURATION},
        {"0", 0, "must be more than 0"},
        {"0s", 0, "must be more than 0"},
        {"0.5ms", 0, "must be more than 0"},
        {"366d", 0, "too long"},
        {"365.001d", 0, "too long"},
        {"8761h", 0, "too long"},
        {"99999999999999", 0, "too long"},
        {"99999999999999999999", NO_DURATION},
    };

    check_rows(parse_duration, rows, ARRAY_LEN(rows));
}

static void test_cpus(void **state) {
    static const struct row rows[] = {
        {"1", 1000},
        {"2", 2000},
        {"0.5", 500},
        {".5", 500},
        {"0.01", 10},
        {"1.234", 1234},
        {"4096", 4096000},
        {"", NO_CPUS},
        {"2 ", NO_CPUS},
        {"-1", NO_CPUS},
        {"2x", NO_CPUS},
        {"1e3", NO_CPUS},
        {"1.", NO_CPUS},
        {"1.5.2", NO_CPUS},
        {"50%", NO_CPUS},
        {"0", 0, "between 0.01 and 4096"},
        {"0.009", 0, "between 0.01 and 4096"},
        {"4096.001", 0, "between 0.01 and 4096"},
        {"99999999999", 0, "between 0.01 and 4096"},
    };

    check_rows(parse_cpus, rows, ARRAY_LEN(rows));
}

static void test_cpus_number(void **state) {
    static const struct {
        double d;
        uint64_t milli; /* 0: refused */
    } table[] = {
        {1, 1000},  {0.5, 500}, {0.01, 10}, {4096, 4096000}, {1.9999, 2000}, {0, 0},   {-1, 0},
        {0.001, 0}, {4097, 0},  {1e300, 0}, {INFINITY, 0},   {-INFINITY, 0}, {NAN, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        uint64_t v = UNTOUCHED;

        assert_int_equal(parse_cpus_number(table[i].d, &v, NULL), table[i].milli ? 0 : -EINVAL);
        assert_int_equal(v, table[i].milli ? table[i].milli : UNTOUCHED);
    }
}

static void test_u64(void **state) {
    static const struct {
        const char *s;
        uint64_t min, max, value;
        const char *message; /* NULL: accepted */
    } table[] = {
        {"0", 0, 10, 0, NULL},
        {"10", 0, 10, 10, NULL},
        {"007", 0, 10, 7, NULL},
        {"18446744073709551615", 0, UINT64_MAX, UINT64_MAX, NULL},
        {"18446744073709551610", 0, UINT64_MAX, UINT64_MAX - 5, NULL},
        {"18446744073709551616", 0, UINT64_MAX, 0, "is not a whole number"},
        {"184467440737095516150", 0, UINT64_MAX, 0, "is not a whole number"},
        {"11", 0, 10, 0, "11 is out of range (0 to 10)"},
        {"0", 1, 10, 0, "0 is out of range (1 to 10)"},
        {"", 0, 10, 0, "is not a whole number"},
        {"-1", 0, 10, 0, "is not a whole number"},
        {"+1", 0, 10, 0, "is not a whole number"},
        {" 1", 0, 10, 0, "is not a whole number"},
        {"1 ", 0, 10, 0, "is not a whole number"},
        {"1.0", 0, 10, 0, "is not a whole number"},
        {"0x1", 0, 10, 0, "is not a whole number"},
        {"1e1", 0, 10, 0, "is not a whole number"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        uint64_t v = UNTOUCHED;
        struct err err = {0};
        int r = parse_u64(table[i].s, table[i].min, table[i].max, &v, &err);

        if (r != (table[i].message ? -EINVAL : 0) || v != (table[i].message ? UNTOUCHED : table[i].value))
            fail_msg("'%s': %d, %" PRIu64, table[i].s, r, v);
        if (table[i].message && !strstr(err.msg, table[i].message))
            fail_msg("'%s': '%s'", table[i].s, err.msg);
    }
}

static void test_format_count(void **state) {
    static const struct {
        uint64_t n;
        const char *want;
    } rows[] = {{0, "0"}, {7, "7"}, {999, "999"}, {1000, "1,000"}, {24620, "24,620"}, {UINT64_MAX, "18,446,744,073,709,551,615"}};
    char out[32];

    for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
        format_count(rows[k].n, out);
        assert_string_equal(out, rows[k].want);
    }
}

static void test_format_size(void **state) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } table[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {K, "1 KiB"},
        {K + K / 2, "1.5 KiB"},
        {M - 1, "1023.9 KiB"},
        {512 * M, "512 MiB"},
        {4 * G, "4 GiB"},
        {T, "1 TiB"},
        {1024 * T, "1 PiB"},
        {2 * G - 1, "1.9 GiB"},
        {UINT64_MAX, "16383.9 PiB"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char out[24];

        format_size(table[i].bytes, out);
        assert_string_equal(out, table[i].text);
    }
}

/* What a message says can be given back as an option, and is the same again. */
static void test_size_round_trip(void **state) {
    for (uint64_t n = 1; n <= 1024 * T; n *= 2)
        for (uint64_t k = 1; k <= 3; k += 2) {
            char text[24], *space;
            uint64_t v = 0;

            if (n * k / 2 == 0 || n * k / 2 > 1024 * T)
                continue;
            format_size(n * k / 2, text);
            space = strchr(text, ' ');
            memmove(space, space + 1, strlen(space));
            assert_int_equal(parse_size(text, &v, NULL), 0);
            assert_int_equal(v, n * k / 2);
        }
}

static void test_format_duration(void **state) {
    static const struct {
        uint64_t ms;
        const char *text;
    } table[] = {
        {0, "0 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {1500, "1.5 s"},
        {90000, "90 s"},
        {119999, "119.9 s"},
        {120000, "2 min"},
        {7199999, "7199.9 s"},
        {179000, "179 s"},
        {7200000, "2 h"},
        {365 * 86400000ull, "8760 h"},
        {UINT64_MAX, "18446744073709551.6 s"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        char out[24];

        format_duration(table[i].ms, out);
        assert_string_equal(out, table[i].text);
    }
}

static void test_format_time(void **state) {
    char text[24];

    format_time(0, text);
    assert_string_equal(text, "");
    format_time(1, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    format_time(1769860799999999999, text);
    assert_string_equal(text, "2026-01-31T11:59:59Z");
    format_time(UINT64_MAX, text);
    assert_string_equal(text, "2554-07-21T23:34:33Z");
}

static void test_format_age(void **state) {
    static const struct {
        uint64_t seconds;
        const char *text;
    } ages[] = {{0, "0s"}, {59, "59s"}, {60, "1m"}, {3599, "59m"}, {3600, "1h"}, {86399, "23h"}, {86400, "1d"}, {900000, "10d"}};
    char text[24];

    for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
        format_age(ages[i].seconds * 1000000000 + 999999999, text);
        assert_string_equal(text, ages[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_huge_digits_never_wrap),
        cmocka_unit_test(test_duration),
        cmocka_unit_test(test_cpus),
        cmocka_unit_test(test_cpus_number),
        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_format_size),
        cmocka_unit_test(test_format_count),
        cmocka_unit_test(test_size_round_trip),
        cmocka_unit_test(test_format_duration),
        cmocka_unit_test(test_format_time),
        cmocka_unit_test(test_format_age),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
