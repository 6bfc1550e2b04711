/* SPDX-License-Identifier: Apache-2.0 */
/* What takes the space in $XDG_STATE_HOME/bawn, for `bawn prune` and `bawn inspect`. */
#pragma once

#include "base/macros.h"

struct err;

/* Bytes on the disk of (dir, path), a file or a folder with all in it; a file with several names counts by its share. 0: not there. What may
 * not be read is left out. */
uint64_t space_of(int dir, const char *path);

enum space_kind {
    SPACE_SANDBOX,
    SPACE_CHANGES,
    SPACE_CHECKPOINTS,
    SPACE_RUN,
    SPACE_VOLUMES,
    SPACE_AGENTS,
    SPACE_AUDIT,
    SPACE_LOGS,
    SPACE_BATCH,
    SPACE_OTHER, /* what is left: rules, trust, the folders themselves */
    SPACE_KINDS
};
extern const char *const space_kind_names[SPACE_KINDS];

struct space_item {
    enum space_kind kind;
    char *name; /* of the sandbox, run, project, agent; "" */
    uint64_t bytes;
};
struct space_list {
    struct space_item *v; /* the largest first */
    size_t n;
    uint64_t total;
};
/* state: $XDG_STATE_HOME/bawn */
int space_list(const char *state, struct space_list *ret, struct err *err);
void space_list_done(struct space_list *l);
