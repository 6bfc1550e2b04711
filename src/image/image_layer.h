/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks a layer of an image into a folder that overlayfs takes as a lower one. Only in bawn-pull: a layer is hostile bytes.
 *
 *   Where    Every name is reached from the descriptor of the layer's folder, one real folder after the other (safepath_open()):
 *            no link of the archive, and none that another process puts there, leads the kernel anywhere else.
 *   Parents  A layer may name "lib/x" where a layer below has lib -> usr/lib. Its file belongs into usr/lib then, as if all were one
 *            tree, so links of parents are followed by us, through all layers, and never out of the image. What a layer does
 *            not name itself gets mode and time of the folder below.
 *   Gone     ".wh.NAME" becomes a device 0/0, ".wh..wh..opq" the attribute user.overlay.opaque: what overlayfs reads with
 *            the option userxattr, and what can be made without any capability (Linux 5.8).
 *   Ids      A sandbox has one id, so every file belongs to the user who pulls, or to IMAGE_ID if that is root. Mounts map it
 *            to the sandbox's own. Neither unpacking nor the sandbox needs a capability that way. What the image says is in the
 *            attribute user.bawn.owner, for engines with more ids. No owner means no DAC_OVERRIDE either: folders are
 *            0700 and files 0400 at least, because root of an image expects to read what is its own.
 *   Rights   Set-id bits and capabilities are dropped, devices become empty files. Of attributes only user.* stay.
 */
#pragma once

#include <sys/types.h>

#include "base/macros.h"
#include "proto/tar.h"

struct err;

enum {
    LAYER_ENTRIES_MAX = 2000000,
    LAYER_RATIO_MAX = 200, /* a layer unpacks to so many times its size, and LAYER_FREE on top */
    LAYER_NAME_MAX = 255,
    LAYER_LINKS_MAX = 40,
};
#define LAYER_FREE (1ull << 30)
#define LAYER_BYTES_MAX (64ull << 30)

/* Whom files in root's store belong to: unassigned in systemd's table of id ranges, and below those of sandboxes. */
enum { IMAGE_ID = 0x6ffffff0 };

struct layer_time {
    char *path;
    int64_t s;
    uint32_t ns;
};

struct image_layer {
    int top;          /* the folder that is being filled */
    const int *below; /* the layers under it, the next one first */
    size_t n_below;
    uint64_t ceiling; /* of what it takes of them: LAYER_RATIO_MAX holds for a layer's hard links, too */

    /* results */
    uint64_t entries, bytes;

    /* its own */
    char parent[TAR_PATH_MAX + 1], parent_real[TAR_PATH_MAX + 1]; /* as entries name it, and where it is; that is open */
    int parent_fd;
    uint64_t copied;
    struct layer_time *times; /* of folders: set when nothing changes in them any more */
    size_t n_times;
    char real[TAR_PATH_MAX + 1]; /* scratch: where the last walk led */
};
#define LAYER_INIT \
    { .top = -1, .parent_fd = -1 }

int image_layer_apply(struct image_layer *l, struct tar *t, struct err *err); /* the entry that tar_next() found */
int layer_finish(struct image_layer *l, struct err *err);                     /* times of folders */
void image_layer_done(struct image_layer *l);

/* layer_walk.c. path: clean. The real folder in `top`, made if it is only below; borrowed. */
int layer_parent(struct image_layer *l, const char *path, int *ret_fd, struct err *err);
/* What the layers below have at a path without links; a descriptor (O_PATH) or -ENOENT. */
int layer_find_below(const struct image_layer *l, const char *path);
/* Without "..", ".", and slashes that mean nothing; "" is the image's root. -ENAMETOOLONG */
int layer_clean(const char *path, char out[static TAR_PATH_MAX + 1]);
int layer_add_time(struct image_layer *l, const char *path, int64_t s, uint32_t ns);
int layer_make_opaque(int dir, const char *name);
bool layer_is_whiteout(mode_t mode, dev_t rdev);
void layer_forget_parent(struct image_layer *l);
/* It is looked for again; what is open stays open for the entry that is being made. */
void layer_doubt_parent(struct image_layer *l);

/* A file of the image as it is when all layers are stacked: top first. -ENOENT. Links are followed inside the image. */
int layers_open_file(const int *layers, size_t n, const char *path);
