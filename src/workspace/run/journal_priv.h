/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of journal share. The format is in spec/run-folder.md. */
#pragma once

#include "base/buf.h"
#include "workspace/copy/xattrs.h"
#include "workspace/run/journal.h"

#define JOURNAL_FILE_NAME "journal"
#define JOURNAL_BASE "base"
#define JOURNAL_PACK "pack"
#define JOURNAL_MAGIC "bawnjrn2"
#define JOURNAL_MAGIC_1 "bawnjrn1" /* without packed content; still read, and continued without */

enum {
    JOURNAL_MAGIC_LEN = 8,
    JOURNAL_RECORD_MAX = XATTRS_MAX + 2 * JOURNAL_PATH_MAX + 128,
    JOURNAL_SIZE_MAX = 1024 * 1024 * 1024,
    JOURNAL_RECORDS_MAX = 4 * 1000 * 1000,
    JOURNAL_PACKED_MAX = 64 * 1024, /* larger files have one of their own in base/ */
};

/* How the content of a file is stored. */
enum journal_form {
    JOURNAL_COPIED = 0, /* base/BLOB */
    JOURNAL_LINKED = 1, /* the same, but it is the file itself: its mtime tells whether it was written to since */
    JOURNAL_PACKED = 2, /* in base/pack, at BLOB - 1 */
    JOURNAL_NAMED = 3,  /* not at all: struct journal_entry's named */
    JOURNAL_SPOOLED = 4 /* never in a file: in the spool that a crash left, at BLOB - 1 */
};

struct journal_slot {
    struct journal_entry e;
    uint64_t hash;
    enum journal_form form;
    char bytes[]; /* path, link, xattrs, unless they are in `loaded` */
};

struct journal {
    int dir, file, base, pack; /* base, pack: -1 until they are needed */
    bool write;
    bool old; /* JOURNAL_MAGIC_1 */
    struct journal_opts opts;
    struct journal_slot **slots; /* in the order of adding */
    size_t n, cap;
    uint32_t *table; /* by hash of the path: index into slots + 1; 0: free */
    size_t table_cap;
    uint64_t key; /* of the hash: paths are chosen by the sandbox, which must not be able to make them collide */
    uint64_t end; /* of the last whole record in the file */
    uint64_t last_blob, stored_bytes;
    uint64_t pack_end;  /* of what records lead to */
    uint64_t pack_size; /* for reading: of the file */
    char *packing;      /* JOURNAL_PACKED_MAX + 1 bytes; NULL until they are needed */
    size_t not_stored, named;
    char *loaded; /* the file as it was when it was opened */
    struct {
        int fd;       /* for writing: what the guard puts into it is read here; -1: there is none */
        uint64_t seq; /* of the last entry that was taken over; 0: none was, and the first one says where they begin */
        size_t at;    /* where the next one is */
        char *data;   /* what was read of it */
        size_t len;
    } spool;
    struct buf record, path, link, xattrs;
};

uint32_t journal_checksum(const char *data, size_t len); /* CRC-32 as zlib has it */
void journal_encode(const struct journal_entry *e, enum journal_form form, struct buf *out);
/* How many bytes the record at data takes; 0 if it is cut or damaged. The strings point into data. */
size_t journal_decode(const char *data, size_t len, struct journal_entry *ret, enum journal_form *ret_form);

uint64_t journal_hash(const struct journal *j, const char *path);
struct journal_slot *journal_lookup(const struct journal *j, const char *path, uint64_t hash);

int journal_reserve(struct journal *j); /* room for one more record */
void journal_insert(struct journal *j, struct journal_slot *s);
/* From memory: e->size bytes. blob 0: too large. e is not NAMED. */
int journal_keep_bytes(struct journal *j, const char *content, struct journal_entry *e, enum journal_form *ret_form);
/* A file in memory with these bytes. */
int journal_memory(const char *data, size_t len);

/* journal_spool.c: reads a spool that is there, and what is in it and not in the journal: into the journal, or, for reading, into the index */
int journal_spool_find(struct journal *j);
int journal_spool_load(struct journal *j);

/* journal_blob.c: stores the content. ret->blob is 0 if it is too large; sets size and mtime to those of what was stored. */
int journal_keep(struct journal *j, int content, bool keep_inode, int host_dir, struct journal_entry *e,
                 enum journal_form *ret_form);
/* For reading, once the records are there: the pack, which may be missing. */
void journal_open_pack(struct journal *j);
void journal_unkeep(struct journal *j, const struct journal_slot *s);
