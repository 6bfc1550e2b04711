/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders: what is in them, and making them.
 *
 *     CLEANUP(dir_done) struct dir d = DIR_INIT;
 *     const struct dirent *e;
 *     int r = dir_open_at(at, "runs", &d);
 *
 *     while ((e = dir_next(&d)))
 *         look_at(d.fd, e->d_name);
 *     return r < 0 ? r : d.error;
 */
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include "base/macros.h"

struct strv;

struct dir {
    DIR *d;
    int fd;    /* for openat() and the like; belongs to the struct */
    int error; /* why dir_next() ended: 0 at the end of the folder, else -errno */
};
#define DIR_INIT \
    { .fd = -1 }

void dir_done(struct dir *d);

/* Each returns 0 or -errno; after a failure dir_next() finds nothing. The last component of path is not followed if it is a link. "." is
 * the folder itself, read from its beginning, whatever others do with the descriptor. */
int dir_open_at(int dirfd, const char *path, struct dir *ret);
/* The same with links followed: for folders whose place the user or the system arranges. */
int dir_open_linked(const char *path, struct dir *ret);
/* The folder of a descriptor that was opened otherwise, by safepath_open() for example: takes fd, also on failure. A negative fd is the
 * failure to open it and is returned. */
int dir_take(int fd, struct dir *ret);

/* The next entry except "." and ".."; valid until the next call. NULL at the end and on failure. */
const struct dirent *dir_next(struct dir *d);
/* DT_DIR, DT_REG and so on, of the entry itself. Some file systems do not tell (DT_UNKNOWN): then it is asked for. -errno */
int dir_type(const struct dir *d, const struct dirent *e);

/* Names of all entries except "." and "..", sorted by their bytes: for changing a folder while going through it, and for people.
 * 0 or -errno */
int dir_names(int dirfd, const char *path, struct strv *ret);

/* Makes a folder and the ones above it that are missing, with these modes. 0 also if it is there; -errno. A link on the way is
 * followed: below a folder that others fill this is not safe. */
int dir_make(int dirfd, const char *path, mode_t mode, mode_t parents);

/*
 * A hint for ext4: what is made in this folder belongs to different things, each with files of its own. They are then spread over the disk's groups,
 * as home folders are, instead of into the group of their parent. Where much is made and deleted, that is what makes a new file cheap: ext4 looks
 * at every number of the group that was given back in the last minutes before it gives one out (recently_deleted() in fs/ext4/ialloc.c).
 * Other file systems know no such hint, which is no failure.
 */
void dir_spread(int fd);
