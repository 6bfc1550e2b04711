/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moments that can be compared with the times of files. Files are stamped by the coarse clock, which moves every few milliseconds,
 * or, since Linux 6.13, sometimes by the fine one. Whatever was changed before clock_mark() has a stamp up to its value;
 * whatever is changed after clock_pass() of it has a later one.
 */
#pragma once

#include "base/macros.h"

uint64_t clock_mark(void);           /* nanoseconds since 1970 */
void clock_pass(uint64_t moment_ns); /* waits, for one tick at most */
