/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts single things into a tree (the workspace, a private copy) that others write at the same time: each appears whole or not at
 * all, nothing outside the tree is reached, and nothing that the caller has not seen is lost.
 *
 * Paths are relative to `root`, bytes, without "..". Folders on the way are created where they are missing (mode 0777 less
 * the umask) and never followed if they are links: -ELOOP or -ENOTDIR for a link or a file on the way, and nothing is done.
 *
 * `expect` guards against losing a change by another process. It is what the caller saw at the path (manifest_stamp_of; mode 0:
 * nothing). If something else is there now, or a process has it open for writing, the call returns -ESTALE and leaves it as it is.
 * That also holds for a change between looking and replacing: the old file is exchanged with the new one, looked at once more,
 * and exchanged back. NULL: whatever is there is replaced (files and links; a folder never is: -EISDIR).
 *
 * kill -9 leaves at most one file with a name that place_is_temp() knows beside the path: the new version, or the old one.
 *
 * As root, a new file belongs to the owner of the replaced one, else to the owner of its folder.
 * Errors name the path, safe for a terminal.
 */
#pragma once

#include <sys/stat.h>

#include "base/err.h"
#include "base/strv.h"
#include "workspace/copy/manifest.h"

struct place_meta {
    mode_t mode;        /* permission bits: what is not in 0777 (setuid, setgid) is dropped */
    uint64_t mtime_ns;  /* 0: now */
    const char *xattrs; /* block of xattrs.h; NULL: none */
    size_t xattrs_len;
};

/* A regular file with the content of `content` (a regular file open for reading; read from its start). */
int place_file(int root, const char *path, int content, const struct place_meta *meta, const struct manifest_stamp *expect,
               struct err *err);
int place_link(int root, const char *path, const char *target, const struct manifest_stamp *expect, struct err *err);
/* A folder with this mode; one that is there gets the mode. -EEXIST if something else is. */
int place_dir(int root, const char *path, mode_t mode, struct err *err);
/* A file, link or empty folder; a folder that is not empty stays: -ENOTEMPTY. -ENOENT if there is nothing (and no err). */
int place_remove(int root, const char *path, const struct manifest_stamp *expect, struct err *err);

/*
 * The same in two steps, for many files that shall change together: first all are staged under names of their own beside their
 * targets, where missing space or rights show, then they are moved into place. *ret_temp is
 * the path of the staged one, malloc'ed; place_discard() removes it. After place_commit() it is gone,
 * whatever it returns.
 */
int place_stage_file(int root, const char *path, int content, const struct place_meta *meta, char **ret_temp, struct err *err);
int place_stage_link(int root, const char *path, const char *target, char **ret_temp, struct err *err);
int place_commit(int root, const char *temp, const char *path, const struct manifest_stamp *expect, struct err *err);
void place_discard(int root, const char *temp);

/* The same where nothing may be replaced; -EEXIST if the path is taken: then it is still staged, to be tried elsewhere. */
int place_commit_new(int root, const char *temp, const char *path, struct err *err);

#define PLACE_TEMP ".bawn-tmp-"       /* and 16 hex digits */
bool place_is_temp(const char *name); /* the last part of a path */

/* What is at the path now, no link followed: 0 or -errno (-ENOENT). */
int place_stat(int root, const char *path, struct stat *ret);
/* The same as a stamp; all 0 on failure. */
int place_stamp(int root, const char *path, struct manifest_stamp *ret);
/* Opens it as safepath_open() does, also if the path is longer than PATH_MAX. */
int place_open(int root, const char *path, int flags);
/* For reading: no link, and nothing is waited for. */
int place_read(int root, const char *path);
/*
 * A process has the file open for writing (a lease tells; false where leases are not available). write(2) sets the times first and the
 * bytes later: only if this says false after an fstat() are all writes that belong to these times done.
 */
bool place_is_written(int fd);
int place_writers(int fd); /* the same: 1, 0, or -errno where leases are not available */
/* Where the link at the path leads, malloc'ed; NULL: not a link, or no memory. */
char *place_link_target(int root, const char *path);
bool place_links_to(int root, const char *path, const char *target); /* exactly there; target may be NULL */
/* -- inside place ------------------------------------------------------------------------------------------------------- */

/* Renames that lose nothing. `dir` has all names; 0 or -errno, -ESTALE if something else than `expect` is there. */
enum { PLACE_TEMP_SIZE = sizeof PLACE_TEMP + 16 };
int place_temp_name(char ret[static PLACE_TEMP_SIZE]);
/* Without replacing anything: -EEXIST. On failure temp stays. */
int place_move_new(int dir, const char *from, const char *to);
/* temp takes the place of name. On failure temp is removed, unless it was written to. */
int place_swap(int dir, const char *temp, const char *name, const struct manifest_stamp *expect);
int place_take_away(int dir, const char *name, const struct manifest_stamp *expect);

/* "PATH: WHAT" to a list of lines, the path safe for a terminal. */
int place_note(struct strv *to, const char *path, const char *what, struct err *err);
/* "cannot WHAT 'PATH': why", the path safe for a terminal; returns r. */
int place_err(struct err *err, int r, const char *what, const char *path);
