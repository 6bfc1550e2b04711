/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes of ours leave when they are killed, or the machine is: sockets, folders of sockets, control groups, private folders,
 * half-made and half-removed sandboxes and runs. Called when a persistent sandbox starts, and by `bawn prune`.
 *
 *   Should: remove it by proof of death: of a process (pid and start time, as the name says), of a listener (no answer, and the pid is
 *   gone or the sandbox's lock is free), of a maker (its lock is free).
 *   Mustn't: touch what a living process has, or another user's; get in the way of one that is just being made; ask or wake a keeper.
 */
#pragma once

#include "base/macros.h"

struct swept {
    int sockets, folders, groups, sandboxes, checkpoints; /* the last two: leftovers of creations and removals */
};

/* look: only counts (control groups and private folders, which other code sweeps, are left out then). home, ret may be NULL. What cannot
 * be swept now is swept the next time: never an error. */
void sweep_stale(char *const *environ_, const char *home, bool look, struct swept *ret);

/* The same before a start; with many sandboxes not before every one: looking at each costs some 100 us. */
void sweep_if_due(char *const *environ_, const char *home);

/* Private folders on disk (engine/private_dir.h) alone. */
void sweep_private(char *const *environ_, const char *home);

/* The control groups of a keeper that was killed, as the state of its sandbox, which is locked by us, names them: they may be below a session
 * that we are not in, where cgroup_sweep() does not look. One that still has a process in it stays. Returns how many were removed. */
struct box;
int sweep_groups(const struct box *b);
