/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks. */
#include "os/clock.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

enum { NAP_NS = 200000 };

static const uint64_t SECOND_NS = 1000000000;

static uint64_t read_ns(clockid_t clock) {
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

uint64_t clock_ms(void) {
    return read_ns(CLOCK_MONOTONIC) / 1000000;
}

uint64_t clock_us(void) {
    return read_ns(CLOCK_MONOTONIC) / 1000;
}

int clock_left_ms(uint64_t deadline_ms) {
    uint64_t now;

    if (!deadline_ms)
        return -1;
    now = clock_ms();
    return deadline_ms <= now ? 0 : (int)MIN_OF(deadline_ms - now, (uint64_t)INT_MAX);
}

int clock_sooner(int a_ms, int b_ms) {
    return a_ms < 0 ? b_ms : b_ms < 0 ? a_ms : MIN_OF(a_ms, b_ms);
}

uint64_t clock_mark(void) {
    return read_ns(CLOCK_REALTIME);
}

uint64_t clock_coarse(void) {
    return read_ns(CLOCK_REALTIME_COARSE);
}

void clock_pass(uint64_t moment_ns) {
    const struct timespec nap = {.tv_nsec = NAP_NS};

    while (clock_coarse() <= moment_ns)
        nanosleep(&nap, NULL);
}

/* As gmtime_r(), which reads the rules of the local time zone first. The year begins in March here, so that the odd day is its last: the
 * months from there on have 153 days in each five. */
static struct tm utc_of(uint64_t seconds) {
    enum { DAY = 86400, ERA_DAYS = 146097 /* 400 years */, UNTIL_1970 = 719468 /* days, from March of the year 0 */ };
    uint64_t days = seconds / DAY + UNTIL_1970, second = seconds % DAY, day = days % ERA_DAYS;
    uint64_t year = (day - day / 1460 + day / 36524 - day / (ERA_DAYS - 1)) / 365;
    uint64_t of_year = day - (365 * year + year / 4 - year / 100), month = (5 * of_year + 2) / 153;
    bool next = month >= 10; /* January and February */

    return (struct tm){.tm_year = (int)(days / ERA_DAYS * 400 + year + next) - 1900,
                       .tm_mon = (int)(next ? month - 10 : month + 2),
                       .tm_mday = (int)(of_year - (153 * month + 2) / 5 + 1),
                       .tm_hour = (int)(second / 3600),
                       .tm_min = (int)(second / 60 % 60),
                       .tm_sec = (int)(second % 60)};
}

const char *clock_text(uint64_t wall_ns, enum clock_format f, char ret[static CLOCK_TEXT_SIZE]) {
    static const char *const formats[CLOCK_FORMATS] = {
        [CLOCK_ISO] = "%04d-%02d-%02dT%02d:%02d:%02dZ",
        [CLOCK_ISO_MS] = "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ",
        [CLOCK_ISO_US] = "%04d-%02d-%02dT%02d:%02d:%02d.%06uZ",
        [CLOCK_STAMP] = "%04d%02d%02dT%02d%02d%02dZ",
    };
    unsigned fraction = (unsigned)(wall_ns % SECOND_NS) / (f == CLOCK_ISO_MS ? 1000000 : 1000);
    struct tm tm = utc_of(wall_ns / SECOND_NS);

    snprintf(ret, CLOCK_TEXT_SIZE, formats[f], tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
             fraction);
    return ret;
}
