/* SPDX-License-Identifier: Apache-2.0 */
/* Inside sync: one round of carrying changes. sync.c looks at both sides and decides, sync_do.c carries. */
#pragma once

#include "workspace/copy/place.h"
#include "workspace/hide/ignore.h"
#include "workspace/mode/sync.h"

enum sync_side { SYNC_HOST, SYNC_COPY };

enum sync_action {
    SYNC_NOTHING,
    SYNC_SAME,     /* changed, but not different: noted in the manifest */
    SYNC_SAME_YET, /* the same, but open for writing: to be compared again the next time */
    SYNC_FORGET,   /* gone on both sides */
    SYNC_OUT,      /* the copy's version to the host */
    SYNC_IN,       /* the host's to the copy */
    SYNC_BESIDE,   /* both, different: the copy's lands beside the host's */
    SYNC_ACTIONS
};

struct syncer {
    int root[2]; /* by enum sync_side */
    const char *run;
    const struct ignore *hidden;
    struct sync_hooks hooks;
    bool in_only;          /* nothing to the host */
    struct manifest *base; /* what both sides were when they were last the same */

    /* of one round */
    struct manifest *now;
    uint8_t *actions;              /* enum sync_action of each entry of now */
    struct manifest *blocked;      /* a set of paths: with these, and below them, nothing is done */
    struct strv held, left, stale; /* left: lines; held, stale: paths */
    uint64_t before;               /* the clock when the round began */
    bool beside;                   /* a version was put beside the host's: the copy does not have it yet */

    /* of all rounds */
    size_t out, in;
    struct strv conflicts; /* lines */
};

/* Does what the plan says; the manifest in memory follows. */
int sync_do(struct syncer *s, struct err *err);

/* Opens a file for reading; -ESTALE if it is not what was seen. */
int sync_open_seen(int root, const char *path, const struct manifest_stamp *seen);

/* 1 if the path, or a folder on its way, is in the set; -ENOMEM. */
int sync_is_below(const struct manifest *set, const char *path);

static inline const struct manifest_stamp *sync_stamp(const struct manifest_entry *e, enum sync_side side) {
    return side == SYNC_HOST ? &e->host : &e->copy;
}
