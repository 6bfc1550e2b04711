/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount API of Linux 5.2+ (open_tree, move_mount, fsopen) and mount_setattr of 5.12. Each wrapper
 * returns a descriptor or 0, or -errno. Mount points are always (dirfd, relative path), never absolute.
 */
#pragma once

#include "base/macros.h"

/* A detached copy of what is mounted at (dirfd, path); with its submounts if recursive. */
int mount_clone(int dirfd, const char *path, bool recursive);
/* One call where nothing has to be changed in between: binds (host path, recursively) onto a path relative to the current
 * directory. Half the price of mount_clone() and mount_attach(), which need five calls. */
int mount_bind(const char *from, const char *to);
/* Attaches a detached mount at (dirfd, path); path "" means dirfd itself. */
int mount_attach(int mount_fd, int dirfd, const char *path);

struct fs_param {
    const char *key, *value; /* value NULL: a flag */
};
/* A new detached instance of a file system, with mount attributes such as MOUNT_ATTR_NODEV. */
int mount_new(const char *fstype, const struct fs_param *params, size_t n, uint64_t attrs);

/* Sets attributes, private propagation included, on a mount and, if recursive, on all below it. */
int mount_restrict(int mount_fd, uint64_t attrs, bool recursive);
/* Takes attributes from a detached mount. */
int mount_loosen(int mount_fd, uint64_t attrs);
/* Maps the ids of a detached mount through the user namespace. */
int mount_idmap(int mount_fd, int userns_fd);
