/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worktree mode: a branch bawn/NAME of the repository, checked out in the run's folder as a linked worktree that the host's git
 * knows. The sandbox sees the files at the workspace's path, and a git directory of its own (git/ in the run's folder) that
 * borrows the repository's objects read-only: nothing the sandbox does can reach the repository's configuration, hooks, other
 * branches or objects. After the run new commits are carried over to the branch.
 *
 * Git is only ever run with a git directory of our own in which nothing of the repository's configuration holds (git.h).
 */
#pragma once

#include "workspace/run/rundir.h"

struct err;
struct ignore;

struct worktree_view {
    char *objects; /* host path of the repository's object store: to be shown read-only inside at WORKTREE_OBJECTS */
};
#define WORKTREE_GIT "/run/bawn/git"         /* where git/ is inside; tree/.git says "gitdir: " this, inside */
#define WORKTREE_OBJECTS "/run/bawn/objects" /* git/objects/info/alternates names it */

/* rd->info.branch and base_commit are set and saved. Refuses with a reason: no repository, no commit yet, no git program, the
 * workspace is not the top of the working tree. Hidden files are not checked out. */
int worktree_make(struct rundir *rd, int workspace, const struct ignore *hidden, struct worktree_view *ret, struct err *err);
int worktree_open(struct rundir *rd, int workspace, struct worktree_view *ret, struct err *err); /* of an earlier run */
void worktree_view_done(struct worktree_view *v);

/* After the run: carries objects and the branch over. Returns how many commits are new. Those on other branches of the
 * sandbox's, unless they go on from its own, count too, but stay in git/; a line says so. */
int worktree_carry(struct rundir *rd, int workspace, struct err *err);
/* Before the run's folder is removed: unregisters the worktree; the branch is deleted if it is merged or if `discard`. */
int worktree_drop(struct rundir *rd, int workspace, bool discard, struct err *err);
/* The branch is part of the current branch of the repository. */
int worktree_merged(const struct rundir *rd, int workspace, bool *ret, struct err *err);
