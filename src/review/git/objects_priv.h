/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the object reader share; others use objects.h. */
#pragma once

#include <sys/types.h>
#include <zlib.h>

#include "review/git/objects.h"

enum { PACKED_IN = 16 * 1024, OBJECTS_CACHE = 256, OBJECTS_CACHED_MAX = 1024 * 1024 };

/* Bytes that zlib packed, from a place in a file on. */
struct packed {
    z_stream z;
    int fd;
    off_t at;
    bool ended; /* the stream, as it should */
    unsigned char in[PACKED_IN];
};
int packed_begin(struct packed *f, int fd, off_t at);
void packed_end(struct packed *f);
/* Up to n bytes; fewer only at the end of the stream. -EBADMSG: no such stream. */
ssize_t packed_read(struct packed *f, void *out, size_t n);

struct pack {
    int fd;    /* of the pack */
    void *map; /* the index */
    size_t map_len;
    uint32_t n; /* objects */
};
/* Takes neither descriptor; p->fd must outlive the pack. -EBADMSG: not an index of version 2. */
int pack_open(struct pack *p, int idx_fd, int pack_fd, size_t id_len);
void pack_close(struct pack *p);
const unsigned char *pack_id(const struct pack *p, uint32_t i, size_t id_len);
int pack_offset(const struct pack *p, uint32_t i, size_t id_len, uint64_t *ret); /* -EBADMSG */
bool pack_find(const struct pack *p, const unsigned char *id, size_t id_len, uint32_t *ret);

struct cached {
    const struct pack *pack;
    uint64_t offset;
    struct object o;
};

struct objects {
    size_t id_len;
    int stores[OBJECTS_STORES_MAX];
    size_t n_stores;
    struct pack packs[OBJECTS_PACKS_MAX];
    int pack_fds[OBJECTS_PACKS_MAX];
    size_t n_packs;
    uint64_t bytes;
    bool exhausted;
    struct cached cache[OBJECTS_CACHE];
};

/* Counts what is about to be unpacked; -EFBIG past the ceiling. */
int objects_spend(struct objects *o, uint64_t bytes);
/* The object at an offset of a pack, its deltas applied. */
int pack_read(struct objects *o, const struct pack *p, uint64_t offset, size_t max, struct object *ret);
bool objects_matches(const struct objects *o, const struct object *obj, const unsigned char *id);

/* Hashing "TYPE LENGTH NUL" and what follows. */
struct object_hash;
struct object_hash *object_hash_new(const struct objects *o, enum object_type type, uint64_t len);
void object_hash_add(struct object_hash *h, const void *data, size_t len);
/* Frees h. */
bool object_hash_is(struct object_hash *h, const unsigned char *id);
