/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ground of a root: its folders, links, small files and mount points, made once on disk and mounted, read-only, as the root of each sandbox
 * that has the same ones. To make them in memory for each start, and to take them down again, costs as much as all of its mounts. Everything that the inside may
 * write (home, /tmp...) is in memory, and so is every mount point in there.
 *
 * A ground is the folder roots/HASH in the folder of sockets (config/load/paths.h), where no workspace can be. The hash is of everything that is in
 * it, and of the boot: after a crash of the machine files may be empty that were complete before. It appears whole (os/hidden.h) and is never changed.
 *
 * Removing a mount point unmounts what is there, in other namespaces too. So a sandbox has a shared lock on its ground, and only grounds
 * without one are removed.
 *
 * A plan that has anything in its root which is made anew for each sandbox, or that writes to it, has no ground: its root is in memory. So have
 * runs of a service, which do not come again.
 */
#pragma once

#include "base/macros.h"

struct plan;
struct step;

enum { GROUNDS_MAX = 32 }; /* each has some 80 files; one more, and those that are not in use are removed */

struct ground {
    char *path;
    char *kinds; /* what each step has there: 'd', 'f' or 'l'; 0: nothing. A step that mounts something is not done by that */
    int lock;    /* open for as long as the sandbox runs */
};
#define GROUND_INIT \
    { .lock = -1 }

/* The ground of this plan, made if there is none. -errno: it has none here, and that is no error. */
int ground_take(const struct plan *p, char *const *environ_, struct ground *ret) MUST_USE;
void ground_done(struct ground *g);
/* A detached mount of it; -errno: it cannot be mounted here. By its path, for a descriptor from another mount namespace is none here: the folder must still be
 * the one that was found, because who owns a folder above it can have changed the way. */
int ground_mount(const struct ground *g);
/* The step has nothing left to do. */
bool ground_holds(const struct ground *g, const struct plan *p, const struct step *s);
