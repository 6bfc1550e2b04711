/* SPDX-License-Identifier: Apache-2.0 */
/* How persistent sandboxes are, one or all of them. No keeper is asked unless that is said. */
#pragma once

#include <jansson.h>

#include "ops/sandbox/box_changes.h"
#include "ops/sandbox/sandbox_pick.h"
#include "registry/usage.h"

/* What it is now; the last two are no phases of a keeper's. */
enum box_sight {
    BOX_SIGHT_STARTING,
    BOX_SIGHT_RUNNING,
    BOX_SIGHT_STOPPING,
    BOX_SIGHT_STOPPED,
    BOX_SIGHT_FAILED,
    BOX_SIGHT_CRASHED, /* its keeper was killed, or the machine went down */
    BOX_SIGHT_CREATED, /* it never ran */
    BOX_SIGHTS
};
extern const char *const box_sight_names[BOX_SIGHTS];
enum box_sight box_sight(const struct box *b);
bool box_sight_active(enum box_sight s); /* it has a keeper */

struct sandbox_list {
    struct box_list boxes;
    struct box_usage *usage; /* of each; NULL: not asked for */
};
/* The persistent ones by name, then the runs that run. */
int sandbox_list(bool usage, struct sandbox_list *ret, struct err *err);
void sandbox_list_done(struct sandbox_list *l);

/* The answers of its keeper to "jobs" and "processes" (spec/control-socket.md). It must run. */
struct sandbox_activity {
    struct sandbox_pick pick;
    json_t *jobs, *processes;
};
#define SANDBOX_ACTIVITY_INIT \
    { .pick = SANDBOX_PICK_INIT }
int sandbox_activity(const char *name, struct sandbox_activity *ret, struct err *err);
void sandbox_activity_done(struct sandbox_activity *a);

/* Everything that is known of one. Paths are NULL if there is nothing. */
struct sandbox_details {
    struct sandbox_pick pick;
    struct box_usage usage;
    char *control, *exec, *run, *volumes, *audit;
    struct strv checkpoints;
    struct box_changes changes;
    json_t *jobs, *status; /* of its keeper; NULL: it does not run, or does not answer */
    struct {
        uint64_t home, packages, tmp, log, checkpoints, run, volumes; /* bytes */
    } sizes;
};
#define SANDBOX_DETAILS_INIT \
    { .pick = SANDBOX_PICK_INIT }
int sandbox_inspect(const struct sandbox_pick_opts *o, struct sandbox_details *ret, struct err *err);
void sandbox_details_done(struct sandbox_details *d);
