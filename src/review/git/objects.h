/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Git's objects, read from stores that an agent may have written: loose files and packs below open folders. Not libgit2's reader,
 * which takes paths, follows links and alternates, waits for FIFOs and believes that an object is what its name says. Git
 * believes that, too, when it checks files out; so each object is hashed here before anything is concluded from it.
 */
#pragma once

#include "base/macros.h"

enum {
    OBJECT_ID_MAX = 32,
    OBJECT_MAX = 8 * 1024 * 1024,        /* of one that is read; larger ones are only hashed */
    OBJECT_DELTA_MAX = 64 * 1024 * 1024, /* of one that is hashed and stored as a delta */
    OBJECTS_CHAIN_MAX = 4096,            /* deltas upon deltas; git stops at 4095 */
    OBJECT_COST = 4096,                  /* of OBJECTS_BYTES_MAX for each object: many small ones end, too, after a million */
    OBJECTS_STORES_MAX = 4,
    OBJECTS_PACKS_MAX = 256,
    OBJECTS_PACKED_MAX = 4 * 1000 * 1000, /* objects in one pack */
};

/* Unpacked in one review: packs of trees are a second per GiB, at worst it is five. */
#define OBJECTS_BYTES_MAX ((uint64_t)4 << 30)

enum object_type { OBJECT_COMMIT = 1, OBJECT_TREE, OBJECT_BLOB, OBJECT_TAG, OBJECT_OFS_DELTA = 6, OBJECT_REF_DELTA };

/* Numbers in git's files are big-endian. */
static inline uint32_t be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct object {
    enum object_type type;
    unsigned char *data; /* with a NUL behind it */
    size_t len;
};
void object_done(struct object *o);

struct objects;

/* id_len: 20 or 32. spent: of OBJECTS_BYTES_MAX, by stores before this one. NULL: no memory. */
struct objects *objects_new(size_t id_len, uint64_t spent);
uint64_t objects_spent(const struct objects *o);
void objects_free(struct objects *o);
void objects_freep(struct objects **o);

/* The folder `path` ("sub/.git/objects") below root, if there is one. The later a store was added, the later it is asked. */
int objects_add_store(struct objects *o, int root, const char *path);

/* 0; -ENOENT: in no store, -EFBIG: larger than OBJECT_MAX, or OBJECTS_BYTES_MAX are used up, -EBADMSG: damaged, or not the one
 * that its name says, -ENOMEM. */
int objects_read(struct objects *o, const unsigned char *id, struct object *ret);
bool objects_exhausted(const struct objects *o); /* OBJECTS_BYTES_MAX */

/* Whether a file of a store is what its name says. fd stays the caller's. The same errors as above. */
int objects_check_loose(struct objects *o, int fd, const unsigned char *id);
/* Every object that the index of a pack names; -EBADMSG also if the two do not belong together. */
int objects_check_pack(struct objects *o, int idx_fd, int pack_fd);
