/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gateway/secret/finder.h"

enum { FINDER_PAIRS = 8192, FINDER_ENDS = 1024 };

struct finder_pattern {
    size_t at; /* in bytes */
    uint32_t len, tag, start;
    uint16_t next_end, next_first; /* the next one of the same list, + 1; 0: none */
};
static_assert(FINDER_PATTERNS_MAX < UINT16_MAX, "lists are of 16 bits");
static_assert(FINDER_MIN >= sizeof(uint32_t), "patterns are compared by their first four bytes");

struct finder {
    char *bytes; /* of all patterns */
    size_t used, cap;
    struct finder_pattern *v;
    size_t n, n_cap;
    size_t window, longest;         /* window 0: not built */
    uint8_t shift[FINDER_PAIRS];    /* by two bytes at the end of the window: how far it can be moved; 0: look */
    uint16_t ends[FINDER_ENDS];     /* patterns by the last two bytes of the window */
    uint16_t firsts[UINT8_MAX + 1]; /* by their first byte */
};
