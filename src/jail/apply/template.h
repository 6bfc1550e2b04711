/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Templates: the part of a sandbox's root that many sandboxes have in common, made once by the pool. A root has some thirty
 * mounts of the host's folders and files, each with a place made for it, which is a fifth of what a start costs; a copy of
 * the finished mounts is one call.
 *
 * A template is a mount namespace of its own, whose root is a sealed tmpfs with those mounts. What is handed out is a
 * detached copy of the tree: the same read-only tmpfs, other mounts. Nothing in it can be written; what a sandbox
 * may write (home, /tmp...) is a tmpfs of its own, and so is every mount point in there. A root that has anything in it
 * which is of one sandbox only has no template.
 *
 * The user's: root's sandboxes all have different ids, and the files of a template belong to one.
 */
#pragma once

#include "base/buf.h"
#include "jail/plan/plan.h"

struct err;

enum { TEMPLATE_MAX = 64 * 1024, TEMPLATE_STEPS_MAX = 1024 };

/* Everything that a template depends on, as bytes: equal bytes, equal template. Nothing is added if the plan can have none. */
void template_describe(const struct plan *p, struct buf *out);
/* Steps that come with the tree, and so are left out (apply_root.c). */
bool template_holds(const struct plan *p, const struct step *s);
/* Its place is in an area of the sandbox's own, not in the tree. */
bool template_leaves(const struct plan *p, const char *path);

struct template {
    char *bytes;
    size_t len;
    int user, mnt, root; /* namespaces, and the root's mount */
};
#define TEMPLATE_INIT \
    { .user = -1, .mnt = -1, .root = -1 }

/* A plan with the template's steps and size only. */
int template_read(const char *bytes, size_t len, struct plan *ret, struct err *err);
/* Of bytes that template_describe() made, which are copied. */
int template_make(const char *bytes, size_t len, struct template *ret, struct err *err);
void template_done(struct template *t);
/* A copy of the tree: a detached mount. -errno. */
int template_clone(const struct template *t);

/* Calls fn for each path of the host that it shows. */
int template_each_source(const char *bytes, size_t len, int (*fn)(void *arg, const char *path), void *arg);
