/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `bawn prune` removes: persistent sandboxes that were not used for long, runs in which nothing waits, old logs, what tasks of batches
 * printed; the oldest first until a budget is met. Never one that runs, never changes that were not applied; both are named.
 */
#pragma once

#include "ops/sandbox/space.h"
#include "supervisor/session/sweep.h"

struct err;

struct prune_opts {
    uint64_t older_ms;
    uint64_t budget; /* bytes; 0: none */
    bool dry_run;
};

struct prune_item {
    const char *kind; /* "sandbox", "run", "batch", "log" */
    char *name;
    uint64_t bytes;
    char why[420]; /* it stays: why */
};
struct prune_items {
    struct prune_item *v;
    size_t n;
};

struct prune_result {
    struct swept swept;
    struct prune_items removed, left; /* one that cannot be removed is left, and says why: no error */
    struct space_list space;          /* afterwards */
};
void prune_result_done(struct prune_result *r);

int prune(const struct prune_opts *o, struct prune_result *ret, struct err *err);
