/* SPDX-License-Identifier: Apache-2.0 */
/* latecomers_walk.c, for latecomers.c: what is in the folders, and what the kernel says about them. 0, or -errno: -ENOSPC if the user's
 * watches do not suffice, -EMFILE and the like, -ENOMEM. */
#pragma once

#include "supervisor/watch/latecomers.h"

int late_judge(struct latecomers *l, const char *path, bool is_dir); /* to be covered, to be looked at, or nothing */
int late_look_into(struct latecomers *l, const char *path);
int late_read_events(struct latecomers *l, bool all); /* what there is now, or a part of it */
