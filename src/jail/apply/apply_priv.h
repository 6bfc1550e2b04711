/* SPDX-License-Identifier: Apache-2.0 */
/* What apply_root.c and apply_step.c share. */
#pragma once

#include <sys/stat.h>

#include "jail/apply/jail_apply.h"
#include "jail/plan/plan.h"

#define ATTR_NOSUID_NODEV (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* One step that is not below a persistent home; the root is the current directory. */
int apply_step(struct launch *l, const struct step *s);

/* Where it goes, relative to the new root. */
static inline const char *apply_rel(const struct step *s) {
    return s->to + 1;
}

/* apply_root.c: parts of making a root that apply_image.c has, too. */
bool root_before_sealing(const struct step *s);
int root_make_late_points(struct launch *l);
bool root_needs_covers(const struct plan *p);
int root_make_covers(struct launch *l);
int root_open_covers(struct launch *l);
int root_new_tmpfs(struct launch *l);
int root_attach(struct launch *l);
const char *root_too_old(int r); /* for messages */
int apply_image_root(struct launch *l);
int apply_image_enter(struct launch *l); /* after the first of two mounts was detached */

/* apply_system.c. Attaches a mount at the place of a step; with a writable system no link is followed. */
int apply_attach(struct launch *l, int tree, const struct step *s);
int system_show(struct launch *l);
int system_make_points(struct launch *l);
int system_mount(struct launch *l); /* after the root's own overlay */
int system_unseal(struct launch *l);
/* apply_folders.c: all folders of the host's folder `from`, without what is in them, as (dir, name). */
int system_folders(const char *from, int dir, const char *name);

/* The root is an overlay (apply_image.c), not the tmpfs itself. */
static inline bool apply_is_layered(const struct launch *l) {
    return l->plan->image || l->plan->writable_system;
}

int root_make_parent(int root, const char *path);
int root_make_file(int root, const char *path, const char *content, mode_t mode); /* content may be NULL */
/* A mount point of the kind of what will be mounted. */
int root_make_point(int root, const char *to, const struct stat *st);
