/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers a sandbox may not exceed. 0 means no limit, except swap, where 0 means none. */
#pragma once

#include "base/macros.h"

struct limits {
    uint64_t cpus_milli; /* thousandths of a CPU */
    uint64_t memory;     /* bytes */
    uint64_t swap;       /* bytes on top of memory */
    uint64_t pids;
    uint64_t disk; /* bytes: all private areas together, and growth of the workspace */
    uint64_t tmp;  /* bytes: home, /tmp and /var/tmp together; 0: what memory has for them */
    uint64_t timeout_ms;
};

#define LIMITS_MEMORY_USUAL (4ull << 30) /* without a setting */

/* Home and /tmp up to this size are in memory. Filling them must end in "no space left", not in the OOM killer. */
static inline uint64_t limits_tmp_in_memory(const struct limits *l) {
    const uint64_t least = 1 << 20; /* tmpfs takes 0 for "no limit" */

    return l->memory == 0 ? 1ull << 30 : l->memory / 2 > least ? l->memory / 2 : least;
}
