/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A faithful copy of a tree that the inside of a sandbox filled (home/, upper/, tree/), within Bawn's own state: links as links, modes and
 * times, user.* attributes, as root the owners, whiteouts of overlayfs. Blocks are shared where the file system can. Devices, FIFOs and sockets
 * are left out. Nothing is followed, nothing is waited for; setuid and setgid bits are dropped.
 */
#pragma once

#include <sys/stat.h>

#include "workspace/mode/sync.h"

struct err;

struct clone_tree {
    int from, to;      /* folders; `to` is empty and gets owner, mode and attributes of `from` */
    bool whiteouts;    /* an upper/: character devices 0:0 mean "deleted" */
    const char *leave; /* a path below that is not copied; NULL: none */
    void (*copied)(const char *path, const struct stat *from, const struct stat *to, void *arg); /* may be NULL */
    void *arg;
    int (*tell)(uint64_t files, uint64_t bytes, void *arg, struct err *err); /* after each file; negative ends it. May be NULL */
    void *tell_arg;
    uint64_t files, bytes, left_out; /* results; they are added to */
};
int clone_tree_make(struct clone_tree *c, struct err *err);
