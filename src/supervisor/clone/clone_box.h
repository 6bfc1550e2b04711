/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a persistent sandbox: checkpoints, and forks made of them (spec/sandbox-folder.md). What it has on disk is copied: its home, and what
 * the run of its name holds of the workspace (overlay: upper/; sync: the copy and its manifest). Not copied: processes, memory, /tmp, and
 * whatever is made anew at each start (certificate authority, sockets, ids).
 *
 *     sandboxes/NAME/checkpoints/
 *         TAG/                        flock()ed: shared by who reads it, exclusively by who removes it
 *             checkpoint.json         struct checkpoint
 *             home/ run/              run/: upper/, or tree/ and manifest; journal, base/
 *         .new-HEX .gone-HEX          being made, being removed; os/hidden.h
 *
 * A sandbox that runs is frozen while it is copied. Each copy appears whole, by one rename, or not at all: kill -9 and a full disk leave
 * nothing that is listed.
 */
#pragma once

#include "base/strv.h"
#include "config/settings.h"
#include "os/hidden.h"
#include "registry/registry.h"
#include "workspace/mode/sync.h"

struct err;

enum { CHECKPOINTS_MAX = 1000 };

struct checkpoint {
    char tag[BOX_NAME_MAX + 1];
    uint64_t created_ns;
    enum workspace_mode mode;
    uint64_t begun_ns, ended_ns; /* of the run; 0: there was none */
    bool running;                /* the sandbox ran, and was frozen */
    uint64_t files, bytes, left_out;
};

struct clone_opts {
    const char *boxes;
    const char *runs;                /* folder of the runs */
    const char *control;             /* socket of the keeper; NULL: the sandbox does not run, and box is locked by us */
    const struct progress *progress; /* may be NULL */
};

/* tag NULL: one is made of the time. -EEXIST: there is one of that name. */
int checkpoint_make(struct box *box, const struct clone_opts *o, const char *tag, struct checkpoint *ret, struct err *err);

struct checkpoint_list {
    struct checkpoint *v; /* oldest first */
    size_t n;
};
int checkpoint_list(const struct box *box, struct checkpoint_list *ret, struct err *err);
void checkpoint_list_done(struct checkpoint_list *l);
/* What crashes left of checkpoints of the sandbox (boxes, name), which may have none; returns how many. */
int checkpoints_sweep(int boxes, const char *name);
/* -ENOENT, with the nearest; -EBUSY: a fork is being made of it. */
int checkpoint_remove(const struct box *box, const char *tag, struct err *err);

/* A checkpoint that forks are made of. */
struct fork_source {
    struct box *box;
    const struct clone_opts *opts;
    struct checkpoint from;
    int dir;                     /* its folder, locked */
    int parent;                  /* that folder's */
    char temp[HIDDEN_NAME_SIZE]; /* its name there if it was made for the forks alone; "" if it is one of the user's */
    bool last; /* what was made for the forks alone is moved into the next one instead of being copied once more */
};
#define FORK_SOURCE_INIT \
    { .dir = -1, .parent = -1 }
/* tag NULL: of the present. */
int fork_begin(struct box *box, const struct clone_opts *o, const char *tag, struct fork_source *ret, struct err *err);
/* A new sandbox of this name, stopped. -EEXIST: the name is taken by a sandbox or a run. *ret_id (may be NULL) is malloc'ed. A sandbox in direct
 * mode has forks in overlay mode. */
int fork_make(struct fork_source *s, const char *name, char **ret_id, struct err *err);
void fork_end(struct fork_source *s);
