/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that people write. Every function wants the whole string; on failure nothing is written. */
#pragma once

#include "base/macros.h"

struct err;

enum { PARSE_SIZE_MAX_LOG2 = 50 }; /* 1 PiB: more than that is a slip, not a wish */

/* "512m", "4g", "2G", "1.5g", "1048576", with k m g t (powers of 1024), optional "b" or "ib". More than 0. */
int parse_size(const char *s, uint64_t *ret_bytes, struct err *err);
/* "30", "30s", "5m", "2h", "1d", "500ms" to milliseconds. More than 0, at most 365 days. */
int parse_duration(const char *s, uint64_t *ret_ms, struct err *err);
/* "2", "0.5", to thousandths of a CPU. 0.01 to 4096. */
int parse_cpus(const char *s, uint64_t *ret_milli, struct err *err);
int parse_cpus_number(double d, uint64_t *ret_milli, struct err *err);
/* Plain decimal within [min, max]; no sign, no spaces. */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret, struct err *err);

/* "4 GiB", "512 MiB", "1.5 KiB": the shortest exact enough form, for messages. */
void format_size(uint64_t bytes, char out[static 24]);
void format_count(uint64_t n, char out[static 32]); /* "24,620" */
void format_duration(uint64_t ms, char out[static 24]);
/* How long ago, in its largest unit only: "32s", "5m", "2h", "9d". */
void format_age(uint64_t ns, char out[static 24]);
/* Nanoseconds since 1970: "2026-01-31T12:00:00Z"; "" for 0. */
void format_time(uint64_t ns, char out[static 24]);
