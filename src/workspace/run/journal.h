/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was in the workspace before it was changed: one record per path, made before the first change, and the content of
 * files in base/ beside it. Direct mode writes it while the command runs (the guard in bawn-init sees every change before it happens);
 * the other modes write it when the run has ended, for the three-way merge of `bawn apply`; `bawn apply` writes one of its
 * own for --undo. Append-only; a record that a crash cut off is ignored.
 */
#pragma once

#include <sys/stat.h>

#include "base/err.h"

enum journal_kind { JOURNAL_ABSENT, JOURNAL_FILE, JOURNAL_LINK, JOURNAL_DIR, JOURNAL_OTHER /* device, FIFO, socket */ };

struct journal_entry {
    enum journal_kind kind;
    const char *path;   /* relative to the workspace */
    mode_t mode;        /* permission bits */
    uint64_t size;      /* files */
    uint64_t mtime_ns;  /* files */
    const char *link;   /* links: where to */
    const char *xattrs; /* "name\0" u32 length, value ...: user.* only; NULL: none */
    size_t xattrs_len;
    uint64_t blob;     /* number of the file in base/; 0: the content was not stored (see journal_opts) */
    uint64_t dev, ino; /* of what was there; to find renames */
    bool named;        /* files and folders: recorded by name only, because git ignores the folder they are in */
    bool unjudged;     /* a crash left it in the spool: no supervisor has seen whether the guard may say this */
};

struct journal_opts {
    uint64_t budget;   /* bytes of content in all; 0: none is stored. Past it records go on without content */
    uint64_t file_max; /* larger files are recorded without content */
};
enum { JOURNAL_PATH_MAX = 4096 };

/* Relative, of at most JOURNAL_PATH_MAX bytes, no part of it empty, "." or "..": no other path gets in or out of a journal. */
bool journal_is_path(const char *path, size_t len);

struct journal;

/* In the folder open as dir (a run's folder, or its undo/). write: creates what is missing; -EEXIST: a crash left a spool, so that its run cannot go on. */
int journal_open(int dir, bool write, const struct journal_opts *opts, struct journal **ret, struct err *err);
void journal_close(struct journal *j);
void journal_closep(struct journal **j);

/* Adds a record unless the path has one; returns 1 if it was added, 0 if there was one. content: the file, readable, or -1.
 * keep_inode: the file is about to be unlinked, so a hard link below base/ will do if the file system allows (host_dir is
 * the workspace as the caller's own mount has it, -1: copy always). Not for a file that is renamed: a write to its
 * new name would change the stored content; if that is noticed (mtime, size) journal_blob() has nothing. e->blob is ignored and
 * set by the call; size and mtime of what is stored are those of `content`. */
int journal_add(struct journal *j, const struct journal_entry *e, int content, bool keep_inode, int host_dir, struct err *err);
/* The same with content in memory: e->size bytes. */
int journal_add_bytes(struct journal *j, const struct journal_entry *e, const char *content, struct err *err);
/* Makes an entry from the file system: what is at (root, path) now; JOURNAL_ABSENT also if a link or a file is on the way.
 * Strings live until the next call or j's end. *ret_content (may be NULL): a readable file; -1: it is none, or may not be read. */
int journal_look(struct journal *j, int root, const char *path, struct journal_entry *ret, int *ret_content, struct err *err);

const struct journal_entry *journal_find(const struct journal *j, const char *path);
size_t journal_count(const struct journal *j);
const struct journal_entry *journal_at(const struct journal *j, size_t i); /* in the order of adding */
/* Descriptor of the content; -ENOENT: not stored. */
int journal_blob(const struct journal *j, const struct journal_entry *e);
bool journal_has(const struct journal *j, const struct journal_entry *e); /* whether it would find one */
/* Whether the file has the content: 1 or 0; -EAGAIN: the content has to be opened and compared. */
int journal_same(const struct journal *j, const struct journal_entry *e, int fd);
size_t journal_not_stored(const struct journal *j); /* files whose content was not stored, but for those */
size_t journal_named(const struct journal *j);      /* files that were recorded by name only */

/*
 * The spool (workspace/run/spool.h): direct mode's guard puts into it what is about to change, and it is taken over into the journal. What is left of it by a crash is found
 * by who opens the journal.
 */
/* Makes it. A descriptor for the guard, to write to; or -errno. */
int journal_spool_make(struct journal *j);
struct spool_entry;
/* Whether the guard may say this: 1: yes; 0: yes, but no content is stored; a negative errno ends it all. */
typedef int journal_spool_fn(void *arg, const struct spool_entry *e);
/* Takes over what is in the first `len` bytes. rewind: from here on it is written from its beginning. */
int journal_spool_take(struct journal *j, size_t len, bool rewind, journal_spool_fn *judge, void *arg, struct err *err);
/* The guard is gone: takes over what is left. */
int journal_spool_rest(struct journal *j, journal_spool_fn *judge, void *arg, struct err *err);
/* All of it was taken over. */
void journal_spool_end(struct journal *j);
