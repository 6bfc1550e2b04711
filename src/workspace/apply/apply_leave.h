/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How changes leave a run once they are applied or discarded, and how they come back when an apply is undone. Private to apply.
 *
 * Overlay: what represents them in upper/ (files, whiteouts, opaque folders) is moved out, a whole folder in one move if every
 * change below it goes or has gone. Sync and worktree: the copy stays as it is and becomes the new base in the manifest.
 */
#pragma once

#include "workspace/change/change.h"

struct err;
struct journal;

/* Which changes go: one flag per change of the set. */
struct apply_leavers {
    const struct change_set *set;
    const bool *goes;
};

/* undo: the folder undo/, which then has what is needed to come back; -1: nothing comes back. */
int apply_leave(struct rundir *rd, const struct apply_leavers *l, int workspace, int undo, struct err *err);
/* The other way; what the run has made since at the same place stays. */
int apply_return(struct rundir *rd, int undo, struct err *err);

/* After apply_return(), in sync and worktree mode; left: what was not restored. */
int apply_know_restored(struct rundir *rd, int workspace, const struct journal *before, const struct strv *left, struct err *err);
