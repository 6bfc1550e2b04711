/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder on the host that is home and /tmp of one sandbox, where they are not in memory: in the landlock rung, which cannot mount, and
 * where they are larger than a share of the memory (plan_tmp_on_disk()). Its name has the pid and the start time of its owner, which
 * also holds a lock on it (flock, shared): what has a dead owner and no lock was left by one that was killed.
 */
#pragma once

#include "base/macros.h"

struct err;
struct plan;

#define PRIVATE_DIR_PREFIX "bawn-run-"

struct private_dir {
    char *path; /* NULL: none */
    int fd;     /* with the lock; -1: none */
};
#define PRIVATE_DIR_INIT \
    { .fd = -1 }

/* place: a folder of the user's, which is made; NULL: /tmp, which other users can reach and which may be in memory. */
int private_dir_make(const char *place, struct private_dir *ret, struct err *err);
/* Makes the folders in it that the plan names. */
int private_dir_fill(const struct plan *p, struct err *err);
/* private_home.c: what the plan has in the home and beside it in the landlock rung. */
int private_home_fill(const struct plan *p, struct err *err);
/* Removes it with all in it. Safe if there is none. */
void private_dir_remove(struct private_dir *d);
/* Removes what killed owners left in the place; how many. */
unsigned private_dir_sweep(const char *place);
