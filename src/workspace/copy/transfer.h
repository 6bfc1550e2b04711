/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files between a sandbox and the host: `bawn cp`, `put`, `get`, `collect`. Both sides are open folders and files; nothing here
 * knows a path of the host's, and nothing is resolved twice.
 *
 * The sandbox may change its side while it is copied. Every name is opened below its folder's descriptor, no link is followed, what was
 * opened is looked at before it is read, nothing is waited for, and of a file no more is read than it had when it was opened.
 * Each file appears whole or not at all, and takes the place of a link instead of being written through it.
 *
 * What cannot be brought over (devices, FIFOs, sockets, what may not be read, links that lead out) is left out and named in notes; the
 * rest goes on. A full disk, and what is too deep or too much, ends it.
 */
#pragma once

#include <sys/stat.h>

#include "base/progress.h"
#include "base/strv.h"

struct err;

enum { TRANSFER_ENTRIES_MAX = 10000000, TRANSFER_NOTES_MAX = 1000 };

struct transfer {
    const struct progress *progress; /* may be NULL */
    bool out;                        /* to the host: a link that leads out of what is copied is left out */
    bool give;  /* into the sandbox, by root: what is made belongs to the owner of the folder it is made in */
    bool times; /* of a tree that comes over a stream: files and folders have their times there (treestream.h) */
    bool
        whole; /* the same: what cannot be made here, or could not be read there, ends it; only devices, FIFOs and sockets are left out */
    mode_t umask_;
    /* results */
    struct strv notes; /* "PATH: why", safe for a terminal; of the many only TRANSFER_NOTES_MAX */
    uint64_t files, folders, links, bytes, left_out;
    /* private */
    uint64_t entries;
};
void transfer_done(struct transfer *t);

/* One file: `from` becomes (dir, name). A stream is read from its position, a file from its start. shown: for notes and errors.
 * -EISDIR: a folder is there; -EBUSY: something that the sandbox hides. */
int transfer_file(struct transfer *t, int from, int dir, const char *name, mode_t mode, const char *shown, struct err *err);
/* What is in the folder `from` comes into the folder `to`; folders that are there already keep their mode. O_PATH is enough for both. */
int transfer_tree(struct transfer *t, int from, int to, struct err *err);
/* A folder for transfer_tree(): made, or the one that is there. Returns a descriptor. -EEXIST: something else is. */
int transfer_folder(struct transfer *t, int dir, const char *name, struct err *err);

/* May this link, in a folder that is `depth` below what is copied, be followed without leaving it? ".." counts only in front, where the
 * folders that it goes up are known to be folders: after a name, which may be another link, it can lead anywhere. */
bool transfer_link_stays(const char *target, unsigned depth);
/* A regular file of the sandbox, open for reading (-EINVAL: it is something else); no link, no waiting. */
int transfer_open(int dir, const char *name, struct stat *ret);
/* The folder is of a file system that has no files of the sandbox's own (/proc, /sys, /dev/pts). */
bool transfer_is_foreign(int folder);
/* Copies at most `size` bytes of a regular file to an empty one, holes as holes. Less if it has become shorter. */
int transfer_content(int from, int to, uint64_t size, uint64_t *ret_bytes);
/* The same by reading and writing, to and from anything; size: UINT64_MAX for all there is. */
int transfer_pour(int from, int to, uint64_t size, uint64_t *ret_bytes);
