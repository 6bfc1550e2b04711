/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `bawn run`s that run now, for `bawn ps` and `top`: a file each, paths_runtime()/live/PID-START (spec/sandbox-folder.md). As with
 * persistent sandboxes life is a lock: its process has the file write-locked (F_OFD_SETLK), so that one that was killed is listed no
 * more, at once. What it left is removed by the next who looks.
 */
#pragma once

#include "registry/registry.h"

struct running {
    int dir, fd; /* the folder, and the file with the lock; -1: not listed */
    char file[64];
    bool found_dead; /* others were left in the list: their runs were killed */
};
#define RUNNING_INIT \
    { .dir = -1, .fd = -1 }

/* runtime: the folder, open. Of b: name, workspace, state, and as options the command, which is cut. -errno: it is not listed, and that
 * is all. */
int running_enter(int runtime, const struct box *b, struct running *ret);
void running_leave(struct running *r);

/* Adds them to a list, sorted by name among themselves: kind BOX_KIND_RUN, options is the command. None is no error. */
int running_list(char *const *environ_, struct box_list *ret, struct err *err);
/* 0: there is no run of this name; else -EOPNOTSUPP, and why verbs about persistent sandboxes do not work with it. */
int running_refuse(char *const *environ_, const char *name, struct err *err);
