/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole files: read into a struct buf, whose ceiling is the ceiling of the file; written in one piece.
 *
 *     CLEANUP(buf_done) struct buf text = BUF_INIT(RULES_MAX);
 *     int r = file_read(path, 0, &text);
 *     if (r < 0 && r != -ENOENT)
 *         return file_err(err, r, path, text.ceiling);
 *
 * By default a link is not followed, opening never waits, and only a regular file is read. Below a folder that others fill,
 * open with safepath_open() and use file_read_fd(). For values of /proc, /sys and cgroups see the end, and os/fd.h.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"

struct err;

/* -- reading ------------------------------------------------------------------------------------------------------------ */

enum {
    FILE_FOLLOW = 1, /* the last component may be a link: for paths that the user names or may arrange */
    FILE_ANY = 2,    /* any kind of file. Without fstat(2), which the jails of bawn-gate and bawn-broker do not have */
};

/*
 * Appends the whole file to `ret`, which is NUL-terminated text then. 0, or -errno: -EFBIG past the ceiling, -EINVAL if it is no
 * regular file, -ELOOP for a link. What was read before a failure may be in `ret`.
 */
int file_read_at(int dirfd, const char *path, unsigned flags, struct buf *ret);
int file_read(const char *path, unsigned flags, struct buf *ret);
int file_read_fd(int fd, unsigned flags, struct buf *ret); /* from where the descriptor is; it stays open */

/* The message for what these returned; max is the ceiling. Returns r. */
int file_err(struct err *err, int r, const char *path, size_t max);

/* -- writing ------------------------------------------------------------------------------------------------------------ */

enum {
    FILE_SYNC = 1, /* on the disk before it has its name: survives a power cut */
    FILE_NEW = 2,  /* never in place of another file: -EEXIST */
    FILE_SOLE =
        4, /* the caller holds a lock, so that it is the only writer: the temporary's name is fixed (".NAME.new") and a crash
                      leaves no more than that one */
};

/* Appears whole or not at all: a temporary file beside it, renamed. `name` has no '/'. mode as in open(2). 0 or -errno */
int file_replace_at(int dirfd, const char *name, mode_t mode, unsigned flags, const void *data, size_t len);

/* A new file in a folder that is not in use yet; -EEXIST. Removed again if it cannot be written. 0 or -errno */
int file_create_at(int dirfd, const char *name, mode_t mode, const void *data, size_t len);

/* -- /proc, /sys and cgroups -------------------------------------------------------------------------------------------- */

/* The first line, without its end. Returns its length, -errno; ret is "" on failure. */
ssize_t file_line(int dirfd, const char *path, char *ret, size_t size);

/*
 * The number at the beginning of the file, or after "KEY " at the beginning of a line. "max" and "-1" are UINT64_MAX, as cgroups write "no limit". -errno: -ENODATA if there is
 * no such line, -EINVAL if there is no number.
 */
int file_number(int dirfd, const char *path, const char *key, uint64_t *ret);
