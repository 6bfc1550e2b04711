/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image in the place of the host's programs. Its layers are the lower ones of an overlay without an upper one, so the root cannot be written to; the
 * topmost layer is made for each sandbox, in memory, and has the places of all mounts and the few files that are ours.
 * So what is mounted later never goes through a link of the image's.
 *
 * The command is what the image says its user is, and every file belongs to that user (image/image_layer.h says why). Root of an image is
 * uid 0 inside without any capability; outside it is the user, or the sandbox's own id if root started it.
 */
#pragma once

#include <sys/types.h>

#include "base/strv.h"

struct plan;
struct plan_input;

/* Everything is borrowed. */
struct plan_image {
    const char *name;           /* for people */
    const char *id;             /* digest */
    const struct strv *layers;  /* folders, the topmost first */
    const struct strv *env;     /* "NAME=value" */
    const char *workdir;        /* the command's folder if the command is the image's own; NULL: the workspace */
    const char *passwd, *group; /* the image's own files, or "" */
    uid_t uid;
    gid_t gid;
    int lock; /* as long as it is open, the image is not removed */
};

#define PLAN_EMPTY_DIR "/run/bawn/empty"

/* plan_image.c: what replaces the host's parts in the root. */
void plan_make_image_root(const struct plan_input *in, struct plan *p);
void plan_make_image_etc(const struct plan_input *in, struct plan *p);
/* The name of its user, in memory of the plan's. */
const char *plan_image_user(struct plan *p, const struct plan_image *i);
