/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `bawn prune` removes: kept sandboxes that were not used for long, runs in which nothing waits, old logs, what tasks of batches printed; the oldest first until a
 * budget is kept. Never one that runs, never changes that were not applied; both are named.
 */
#pragma once

#include "base/buf.h"

struct err;

struct prune_opts {
    const char *home, *state; /* state: $XDG_STATE_HOME/bawn */
    uint64_t older_ns;
    uint64_t budget; /* bytes; 0: none */
    bool dry_run;
};

struct prune_item {
    const char *kind; /* "sandbox", "run", "batch", "log" */
    char *name;
    uint64_t bytes;
    char why[420]; /* kept: why */
};
struct prune_items {
    struct prune_item *v;
    size_t n;
};
void prune_items_done(struct prune_items *l);

/* One that cannot be removed is kept, and says why: no error. */
int prune_all(const struct prune_opts *o, struct prune_items *ret_removed, struct prune_items *ret_kept, struct err *err);
