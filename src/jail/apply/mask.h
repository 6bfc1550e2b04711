/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mask of overlay mode: a layer in memory, between what the command writes and the host's folder, in which a whiteout stands for
 * everything that is hidden. It is filled before the overlay is mounted, and gets more while it is: it cannot be reached from inside.
 */
#pragma once

#include "base/macros.h"

/* A whiteout, and the folders above it. 0 also if these are gone from the host's folder, `lower`. */
int mask_path(int mask, int lower, const char *path);

/* The same in two parts, where the one who can look at the host's folder cannot write to the mask: the folders above, from the top
 * on (*ret is the caller's), and the whiteout below folders that look like these. */
struct stat;
int mask_look(int lower, const char *path, struct stat **ret, size_t *ret_n);
int mask_path_as(int mask, const char *path, const struct stat *looks);

/* Calls fn for "a", "a/b" of "a/b/c". */
typedef int mask_fn(int mask, int lower, const char *dir);
int mask_parents(const char *path, int mask, int lower, mask_fn *fn);
/* A merged folder looks as its topmost layer says: mode and time are those of the host's folder. */
int mask_dir(int mask, int lower, const char *dir);
int mask_time(int mask, int lower, const char *dir);
