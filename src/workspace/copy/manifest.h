/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of every file of a private copy (sync, worktree) when it was made: enough to tell later what was changed on either
 * side. Identity is (inode, ctime, size): the inside can set any mtime it likes, but no ctime (ATTACKS 31).
 */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

enum { MANIFEST_MAX = 4000000, MANIFEST_PATH_MAX = 64 * 1024, MANIFEST_FILE_MAX = 1024 * 1024 * 1024 };

struct manifest_stamp {
    uint64_t ino, ctime_ns, mtime_ns, size; /* ctime_ns 0: it may have changed since, compare the content */
    uint32_t mode;                          /* with the type; 0: was not there */
};

struct manifest_entry {
    const char *path;
    struct manifest_stamp host, copy;
};

struct manifest;

struct manifest *manifest_new(void);
void manifest_free(struct manifest *m);
void manifest_freep(struct manifest **m);
/* Adds an entry or replaces it. -E2BIG past MANIFEST_MAX. Pointers to other entries are no longer valid. */
int manifest_set(struct manifest *m, const char *path, const struct manifest_stamp *host, const struct manifest_stamp *copy,
                 struct err *err);
/* Removes the entry; the order of manifest_at() changes. */
void manifest_drop(struct manifest *m, const char *path);
const struct manifest_entry *manifest_find(const struct manifest *m, const char *path);
void manifest_sort(struct manifest *m);
size_t manifest_count(const struct manifest *m);
const struct manifest_entry *manifest_at(const struct manifest *m, size_t i); /* sorted by path after load, save, sort */

struct manifest_stamp manifest_stamp_of(const struct stat *st);
int manifest_stamp_fd(int fd, struct manifest_stamp *ret); /* of an open file; 0 or -errno */
/* The stamp of a file whose owner may be writing at it; `before` is the clock when its content was not read yet
 * (CLOCK_REALTIME_COARSE, in ns). A change in the same tick as the last one does not show in the ctime (before Linux 6.13). */
struct manifest_stamp manifest_stamp_racy(const struct stat *st, uint64_t before);
/* Folders are the same if their modes are, whatever is in them. */
bool manifest_same(const struct manifest_stamp *a, const struct manifest_stamp *b);

/* The bytes of the file: "bawn-manifest 1\n", u64 count, then per entry, sorted by path: u32 length, path, host, copy, each
 * four u64 and a u32, in the order of the struct and of the machine. */
void manifest_format(struct manifest *m, struct buf *ret);
int manifest_parse(const char *data, size_t len, struct manifest **ret, struct err *err); /* -EBADMSG */

int manifest_save(struct manifest *m, int dir, const char *name, struct err *err);    /* atomically */
int manifest_load(int dir, const char *name, struct manifest **ret, struct err *err); /* -ENOENT, -EBADMSG */
