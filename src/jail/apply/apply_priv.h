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

int root_make_dirs(int root, const char *path, mode_t mode); /* mkdir -p below the new root */
int root_make_parent(int root, const char *path);
int root_make_file(int root, const char *path, const char *content, mode_t mode); /* content may be NULL */
/* A mount point of the kind of what will be mounted. */
int root_make_point(int root, const char *to, const struct stat *st);
