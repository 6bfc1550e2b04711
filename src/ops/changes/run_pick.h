/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which run a verb is about (`bawn review`, `diff`, `apply`, `discard`, `rollback`): the one that was named, or the latest of the
 * workspace that still has what the verb wants; and everything needed to look at it.
 */
#pragma once

#include "workspace/change/change.h"

struct err;
struct ignore;

enum run_pick_what {
    RUN_PICK_CHANGES, /* changes that wait: a run that was applied as a whole is passed over */
    RUN_PICK_APART,   /* the same, outside of the workspace: not in direct mode */
    RUN_PICK_UNDO,    /* something that can be taken back */
    RUN_PICK_DIRECT   /* a run in direct mode */
};

struct run_pick_opts {
    const char *directory; /* -C: the workspace; NULL: the current folder. Not asked if name is given */
    const char *name;      /* NULL: the latest */
    enum run_pick_what what;
    bool lock; /* to change it: -EBUSY if it runs */
};

struct run_pick {
    char *runs;    /* folder of all runs */
    int workspace; /* the host's folder, readable */
    struct rundir rd;
    struct ignore *rules;    /* what .sandboxignore hides now */
    struct ignore *accepted; /* what the user accepted, if that is something else; else NULL. Hidden is what either hides */
};
#define RUN_PICK_INIT \
    { .workspace = -1, .rd = RUNDIR_INIT }

/* Fields of a struct review_job (supervisor/session/review_spawn.h) about p. */
#define RUN_PICK_JOB(p) .rd = &(p).rd, .workspace = (p).workspace, .rules = {.now = (p).rules, .accepted = (p).accepted}

/* -ENOENT with a message that says what is missing. */
int run_pick(const struct run_pick_opts *o, struct run_pick *ret, struct err *err);
void run_pick_done(struct run_pick *p);

/* The folder of all runs; NULL: there is no home folder, and so none. */
int run_pick_folder(char **ret, struct err *err);
/* All runs of a workspace, the latest first. */
int run_pick_list(const char *directory, struct rundir_list *ret, struct err *err);

/* The change set, with `hidden` by both sets of rules. */
int run_pick_changes(const struct run_pick *p, struct change_set *ret, struct err *err);

/* After everything of a run was applied: it stays for --undo alone. The next run_pick() passes it over, and the next apply in
 * the same workspace, or `bawn discard`, removes it; a run that goes on under the same name is counted again. */
int run_pick_mark_applied(struct run_pick *p, struct err *err);
int run_pick_unmark(struct run_pick *p, struct err *err); /* the apply was taken back */
/* Removes the unnamed runs of this workspace, other than p, that are there for --undo alone. */
int run_pick_sweep(const struct run_pick *p, struct err *err);
/* Removes the run with all it has (in worktree mode, its branch). Takes p->rd. */
int run_pick_remove(struct run_pick *p, struct err *err);
