/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of journal share. The format is in spec/run-folder.md. */
#pragma once

#include "base/buf.h"
#include "workspace/copy/xattrs.h"
#include "workspace/run/journal.h"

#define JOURNAL_FILE_NAME "journal"
#define JOURNAL_BASE "base"
#define JOURNAL_MAGIC "bawnjrn1"

enum {
    JOURNAL_MAGIC_LEN = 8,
    JOURNAL_RECORD_MAX = XATTRS_MAX + 2 * JOURNAL_PATH_MAX + 128,
    JOURNAL_SIZE_MAX = 1024 * 1024 * 1024,
    JOURNAL_RECORDS_MAX = 4 * 1000 * 1000,
};

struct journal_slot {
    struct journal_entry e;
    uint64_t hash;
    bool linked;  /* the blob is the file itself, not a copy: its mtime tells whether it was written to since */
    char bytes[]; /* path, link, xattrs, unless they are in `loaded` */
};

struct journal {
    int dir, file, base; /* base: -1 until it is needed */
    bool write;
    struct journal_opts opts;
    struct journal_slot **slots; /* in the order of adding */
    size_t n, cap;
    uint32_t *table; /* by hash of the path: index into slots + 1; 0: free */
    size_t table_cap;
    uint64_t key; /* of the hash: paths are chosen by the sandbox, which must not be able to make them collide */
    uint64_t end; /* of the last whole record in the file */
    uint64_t last_blob, stored_bytes;
    size_t not_stored;
    char *loaded; /* the file as it was when it was opened */
    struct buf record, path, link, xattrs;
};

/* journal_codec.c */
uint32_t journal_checksum(const char *data, size_t len); /* CRC-32 as zlib has it */
void journal_encode(const struct journal_entry *e, bool linked, struct buf *out);
/* How many bytes the record at data takes; 0 if it is cut or damaged. The strings point into data. */
size_t journal_decode(const char *data, size_t len, struct journal_entry *ret, bool *ret_linked);

/* journal.c */
uint64_t journal_hash(const struct journal *j, const char *path);
struct journal_slot *journal_lookup(const struct journal *j, const char *path, uint64_t hash);

/* journal_blob.c: stores the content. ret->blob is 0 if it is too large; sets size and mtime to those of what was stored. */
int journal_keep(struct journal *j, int content, bool keep_inode, int host_dir, struct journal_entry *e, bool *ret_linked);
void journal_unkeep(struct journal *j, uint64_t blob);
