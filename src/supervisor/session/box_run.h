/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run of a persistent sandbox (workspace/run/rundir.h): where overlay, sync and worktree mode store its changes, under the name of the sandbox. A
 * run in direct mode of that name, or one of another workspace, is not the sandbox's.
 */
#pragma once

#include "workspace/run/rundir.h"

struct box;
struct err;

/* lock: as rundir_open(). 1: *ret is open, 0: the sandbox has none. */
int box_run_open(char *const *environ_, const char *home, const struct box *b, bool lock, struct rundir *ret, struct err *err);
/* Before the sandbox itself gets the new name; b->name is still the old one. Refuses in worktree mode: the repository knows branch and
 * place by name. 0 also if there is none. */
int box_run_rename(char *const *environ_, const char *home, const struct box *b, const char *name, struct err *err);

/*
 * A sandbox and its run are renamed one after the other, with the sandbox locked and a note in its folder. If the process is killed in
 * between, the next one with the lock calls box_rename_settle(), so that the run has the sandbox's name again.
 */
int box_rename_begin(const struct box *b, const char *name, struct err *err);
void box_rename_end(const struct box *b);
void box_rename_settle(char *const *environ_, const char *home, const struct box *b);
