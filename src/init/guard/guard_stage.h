/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of git's that are written in place: .git of a submodule or a linked worktree, commondir and gitdir of a worktree, .gitmodules, and the
 * config.worktree of a new worktree. What is in them comes after the open, so the caller gets a file in memory instead. When it is closed, or its last process ends,
 * the text is judged and written where it belongs by the guard itself; or it is dropped, and the supervisor hears of it. That happens before
 * the next call of any process is answered: inotify reports the close before close(2) returns, and a lock
 * that takes its place is gone by then.
 *
 * A program that is refused sees no error, only that there is no file: close(2) does not come to the guard.
 */
#pragma once

#include "init/guard/guard_place.h"

/* Is this file written so? The caller wants to write to it. */
bool guard_stage_wants(const struct guard *g, const struct place *p);
/* For open(2) with these flags; GUARD_ANSWERED or -errno. */
int guard_stage_open(const struct call *c, const struct place *p, int flags, mode_t mode);
/* When guard_settle() has to look, because nothing wakes it; -1: never. */
int guard_stage_timeout(const struct guard *g);
