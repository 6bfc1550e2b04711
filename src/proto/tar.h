/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tar archives as layers and saved images are: ustar, pax, GNU long names, sparse files of GNU and pax, numbers in base 256.
 * A stream of hostile bytes: nothing is believed but lengths that were read, and each of these has a ceiling.
 *
 *     struct tar t = {.more = next_bytes, .arg = source};
 *     while ((r = tar_next(&t, &err)) > 0)
 *         while ((n = tar_data(&t, &p, &err)) > 0) ...          t.entry says what it is; data that is not read is skipped
 *     tar_done(&t);
 */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct err;

enum {
    TAR_BLOCK = 512,
    TAR_PATH_MAX = 4095,
    TAR_EXTENDED_MAX = 1 << 20, /* bytes of a pax header, or of a long name */
    TAR_XATTRS_MAX = 64,
    TAR_SPARSE_MAX = 1 << 16, /* pieces of a sparse file */
};

enum tar_type { TAR_FILE, TAR_LINK, TAR_SYMLINK, TAR_CHAR, TAR_BLOCK_DEVICE, TAR_DIR, TAR_FIFO };

struct tar_xattr {
    const char *name; /* without SCHILY.xattr. */
    const void *value;
    size_t len;
};

struct tar_piece {
    uint64_t at, len;
};

struct tar_entry {
    enum tar_type type;
    char path[TAR_PATH_MAX + 1], target[TAR_PATH_MAX + 1]; /* as written; target: of links */
    uint32_t mode;                                         /* 07777 at most */
    uint64_t uid, gid;
    int64_t mtime;
    uint32_t mtime_ns;
    uint64_t size;   /* of the file; holes included */
    uint64_t packed; /* bytes of data in the archive */
    struct tar_xattr xattrs[TAR_XATTRS_MAX];
    size_t n_xattrs;
    bool sparse;
    struct tar_piece *pieces; /* sparse: where the data belongs, in order, not overlapping; together `packed` bytes */
    size_t n_pieces;
};

struct tar {
    /* The next bytes of the stream, valid until the next call: how many, 0 at the end, -errno. */
    ssize_t (*more)(void *arg, const unsigned char **ret, struct err *err);
    void *arg;

    struct tar_entry entry;
    /* the reader's own */
    const unsigned char *at;
    size_t have;
    uint64_t left;    /* data of the entry that was not read yet */
    unsigned padding; /* then comes this */
    uint64_t offset;  /* in the stream: where the next byte is; tar_next() leaves it at the data of the entry */
    char *extended;   /* the pax header that the entry's attributes point into */
    size_t extended_len;
};

/* 1: there is one; 0: the archive has ended; -EBADMSG: it is damaged; what more() said. */
int tar_next(struct tar *t, struct err *err);
/* Some of the entry's data: how many bytes, 0 at its end. */
ssize_t tar_data(struct tar *t, const unsigned char **ret, struct err *err);
void tar_done(struct tar *t);

/* tar_extended.c: what a pax header says; and the maps of sparse files, which lie in three places. */
struct tar_extended {
    bool has_size, has_uid, has_gid, has_mtime;
    bool path, target; /* the entry has it from here */
    uint64_t size, uid, gid;
    int64_t mtime;
    uint32_t mtime_ns;
    int sparse_major, sparse_minor; /* -1: not said */
    bool has_real;
    uint64_t real_size;
    char sparse_name[TAR_PATH_MAX + 1];
};
int tar_extended_read(struct tar *t, struct tar_extended *x, struct err *err);
/* Of a GNU header: four pairs, and whether blocks with more follow. -EBADMSG */
int tar_pieces_add(struct tar_entry *e, uint64_t at, uint64_t len, struct err *err);
/* The numbers in front of the data (pax 1.0), which count as packed. */
int tar_pieces_read(struct tar *t, struct err *err);
int tar_pieces_check(struct tar_entry *e, struct err *err);

/* Shared with it. */
int tar_number(const unsigned char *p, size_t n, int64_t *ret);
int tar_block(struct tar *t, unsigned char ret[static TAR_BLOCK], struct err *err); /* 1, 0 at the end of the stream */
