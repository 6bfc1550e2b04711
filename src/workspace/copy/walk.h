/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a tree that other processes fill and may change meanwhile: by folder descriptors, no symbolic link is followed, nothing is
 * opened but folders, nothing is waited for. What is gone when its turn comes is left out. A name that was moved meanwhile may be
 * missed or seen twice: one walk is no proof that a file does not exist.
 */
#pragma once

#include <sys/stat.h>

#include "base/err.h"

struct ignore;

enum { WALK_DEPTH_MAX = 256, WALK_PATH_MAX = 64 * 1024 };

struct walk_entry {
    int dir;          /* the folder it is in */
    const char *name; /* in that folder; gone after the call, like path */
    const char *path; /* relative to the root; bytes, not characters */
    struct stat st;   /* of the thing itself, not of where a link leads */
    unsigned depth;   /* 0: in the root */
};

enum { WALK_ON = 0, WALK_SKIP = 1 };

/* Each returns WALK_ON, WALK_SKIP (this folder is not entered), or a negative number, which ends the walk. */
typedef int walk_fn(const struct walk_entry *e, void *arg, struct err *err);

struct walk_ops {
    walk_fn *found;
    walk_fn *left;   /* every folder that was entered, when all in it was found; may be NULL */
    walk_fn *closed; /* a folder that may not be read; NULL: that is an error, which names it */
    void *arg;
    bool pry; /* the tree is ours: what has no u+rwx (folders) or u+r (files) gets it, so that the inside cannot close it to us */
};

/* root: O_PATH is enough. hidden: what it excludes is not reported, nor what is below; NULL: nothing is hidden. -ELOOP past
 * WALK_DEPTH_MAX. */
int walk_tree(int root, const struct ignore *hidden, const struct walk_ops *ops, struct err *err);
