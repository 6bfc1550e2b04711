/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User namespaces with several ids. The kernel lets a process map only its own id; more are mapped by root, or for a user by newuidmap(1) and
 * newgidmap(1), which are set-user-ID and give away what /etc/subuid and /etc/subgid say, and no more. Both are started outside, before anything
 * runs in the namespace, with numbers only.
 *
 * What a sandbox with several ids leaves on disk partly belongs to others than the user. idspace_run() does something with it as root of a namespace
 * that has the same ids: removing, copying.
 */
#pragma once

#include "os/user/subid.h"

struct err;

struct id_extent {
    uint32_t inside, outside, n;
};

enum { IDSPACE_EXTENTS = 2 };

struct id_map {
    struct id_extent uids[IDSPACE_EXTENTS], gids[IDSPACE_EXTENTS];
};

/* 0 is (uid, gid), and from 1 on come the ranges. */
struct id_map id_map_of(uid_t uid, gid_t gid, struct id_range uids, struct id_range gids);

/* A descriptor of a new user namespace with this map; -errno. The effective ids own it. by_root: the maps are written by this process, which has the
 * capabilities for it. */
int idspace_make(const struct id_map *map, bool by_root);

/* Runs fn(arg) as root of such a namespace, in a process of its own; what it returns is the result. It shares our descriptors as after fork(2), not our memory.
 * -errno also if no such namespace can be made. */
int idspace_run(const struct id_map *map, int (*fn)(void *arg), void *arg);

/* What /etc/subuid and /etc/subgid have for the caller. -errno as subid_read(); -ENOEXEC: it is an ordinary user, and newuidmap or newgidmap is missing. */
int idspace_ranges(struct id_range *ret_uids, struct id_range *ret_gids);
/* For idspace_run() by an ordinary user: 0 is the caller, and the ranges are as outside. The same errors. */
int idspace_own(struct id_map *ret);

/* As remove_tree(), and, where that is refused, once more with the user's other ids. */
int idspace_remove_tree(int parent, const char *name);
