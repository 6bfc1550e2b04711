/* What a running sandbox uses now, read from the control groups that its keeper wrote down: no process is asked, so 500 cost little. */
#pragma once

#include "registry/registry.h"

struct box_usage {
    bool has_memory, has_cpu, has_pids; /* where there is no group nothing is known */
    uint64_t memory;                    /* bytes */
    uint64_t cpu_us;                    /* since it was started */
    uint64_t pids;
};

void box_usage(const struct box_state *s, struct box_usage *ret);
