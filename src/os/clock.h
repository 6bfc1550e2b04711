/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: the monotonic clock for deadlines and durations, the wall clock for what people and files see.
 *
 * A deadline is a moment of clock_ms(); 0 means that there is none.
 */
#pragma once

#include "base/macros.h"

/* -- the monotonic clock ------------------------------------------------------------------------------------------------ */

uint64_t clock_ms(void);
uint64_t clock_us(void);

/* As a timeout for poll(2): -1 without a deadline, 0 once it has passed. */
int clock_left_ms(uint64_t deadline_ms);
/* The shorter of two timeouts for poll(2), where -1 is none. */
int clock_sooner(int a_ms, int b_ms);

/* -- the wall clock, in nanoseconds since 1970 -------------------------------------------------------------------------- */

/*
 * Moments that can be compared with the times of files. Files are stamped by the coarse clock, which moves every few milliseconds,
 * or, since Linux 6.13, sometimes by the fine one. What was changed before clock_mark() has a stamp up to its value; what is changed
 * after clock_pass() of it has a later one.
 */
uint64_t clock_mark(void);
uint64_t clock_coarse(void);         /* the coarse clock: what a file gets that is changed now, at the least */
void clock_pass(uint64_t moment_ns); /* waits, for one tick at most */

enum clock_format {
    CLOCK_ISO,    /* 2026-01-31T12:00:00Z */
    CLOCK_ISO_MS, /* 2026-01-31T12:00:00.123Z */
    CLOCK_ISO_US, /* 2026-01-31T12:00:00.123456Z */
    CLOCK_STAMP,  /* 20260131T120000Z: for names of files and runs */
    CLOCK_FORMATS
};
enum { CLOCK_TEXT_SIZE = 32, CLOCK_ISO_SECONDS = 19 /* length of the text without fraction and Z */ };

/* In UTC. Returns ret. */
const char *clock_text(uint64_t wall_ns, enum clock_format f, char ret[static CLOCK_TEXT_SIZE]);
