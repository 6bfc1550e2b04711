/* SPDX-License-Identifier: Apache-2.0 */
/* What a running sandbox uses now: read from the control groups that its keeper wrote down, and what they do not count, or where there are
 * none (an ordinary user without systemd), from /proc. No process is asked, so 500 cost little. */
#pragma once

#include "registry/registry.h"

struct box_usage {
    bool has_memory, has_cpu, has_pids;
    uint64_t memory; /* bytes; without a group only those that are no file's */
    uint64_t cpu_us; /* since it was started; without a group less what unreaped processes used */
    uint64_t pids;   /* threads */
};

void box_usage(const struct box_state *s, struct box_usage *ret);
/* Of n at once, by one walk over /proc for all that need it; of one that does not run nothing is known. */
void box_usage_all(const struct box *v, size_t n, struct box_usage *ret);
