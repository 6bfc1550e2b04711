/* SPDX-License-Identifier: Apache-2.0 */
/* Between usage.c and usage_walk.c. */
#pragma once

#include "registry/usage.h"

struct usage_of {
    pid_t init; /* PID 1 of the sandbox */
    struct box_usage *usage;
    bool wants_memory, wants_cpu, wants_pids; /* usage_walk()'s own */
};

/* Fills in what is not known of each of them. */
void usage_walk(struct usage_of *v, size_t n);
