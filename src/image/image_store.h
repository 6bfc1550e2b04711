/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of a user, as plain files (spec/image-store.md):
 *
 *     $XDG_STATE_HOME/bawn/images/    0700, never visible inside any sandbox
 *         layers/HEX/tree             unpacked layers by chain id, shared between images; HEX/size: bytes and entries
 *         configs/HEX.json            what an image is (image_info.h), by the digest of its configuration
 *         refs/HEX.json               a name and the image it means; HEX is the hash of the name
 *         partial/HEX                 what came of a download, by its digest
 *         pulls/.new-...              the folder of a pull that goes on (os/hidden.h)
 *
 * Everything appears by rename and disappears by rename, layers before the image, the image before its name: a kill -9 at any time leaves
 * complete images and things that no image names, which the next pull or `bawn image prune` removes. Locks are the kernel's: a
 * sandbox that runs has flock(LOCK_SH) on its image's file; who removes wants LOCK_EX. Adding and removing exclude each other by a
 * lock on the folder itself.
 */
#pragma once

#include "image/image_info.h"
#include "proto/oci.h"

struct err;

struct image_store {
    char *path;
    int fd, layers, configs, refs, partial, pulls;
};
#define IMAGE_STORE_INIT \
    { .fd = -1, .layers = -1, .configs = -1, .refs = -1, .partial = -1, .pulls = -1 }

/* -ENOENT without a message: there is none, and `make` is not set. */
int image_store_open(char *const *environ_, const char *home, bool make, struct image_store *ret, struct err *err);
void image_store_done(struct image_store *s);

/* Until image_store_unlock(). Shared: adding; alone: removing, and looking who uses them. */
int image_store_lock(const struct image_store *s, bool alone, struct err *err);
void image_store_unlock(const struct image_store *s);

struct image_ref {
    char *name, *id;
    uint64_t pulled_ns;
};
struct image_row { /* for lists */
    char *name;    /* NULL: none any more */
    char *id, *arch;
    uint64_t bytes, layers, pulled_ns;
    bool used; /* by a sandbox that runs */
};
struct image_rows {
    struct image_row *v;
    size_t n;
};
void image_rows_done(struct image_rows *l);
/* By name; images without one at the end. Takes the lock. */
int image_store_list(const struct image_store *s, struct image_rows *ret, struct err *err);

/* wanted: a reference, an id or the first digits of one (8 at least). *ret_lock (may be NULL): as long as this descriptor is open, the
 * image is not removed. ret_name (may be NULL): the reference as the store has it, or the id; malloc'ed. -ENOENT: not there, with a message. */
int image_store_find(const struct image_store *s, const char *wanted, struct image_info *ret, int *ret_lock, char **ret_name,
                     struct err *err);
/* Path of an unpacked layer; malloc'ed, NULL if memory runs out. */
char *image_store_layer(const struct image_store *s, const char *chain);

/* staging: a folder with layers/HEX. Moves what is new, and says what the image and its name are. Takes the lock. */
int image_store_add(const struct image_store *s, int staging, const struct image_info *i, const char *name, struct err *err);
/* 0: the name is gone, and the image, if it has no other. -EBUSY: a sandbox uses it. */
int image_store_remove(const struct image_store *s, const char *wanted, struct err *err);

struct image_pruned {
    uint64_t images, layers, downloads;
};
/* What no image needs; images without a name; with `all`, images that no running sandbox uses. */
int image_store_prune(const struct image_store *s, bool all, struct image_pruned *ret, struct err *err);
