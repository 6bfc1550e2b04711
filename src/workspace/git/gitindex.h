/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths that git tracks, read from the index itself (versions 2 to 4, SHA-1 and SHA-256): running git in a folder that an
 * agent wrote would obey that folder's configuration. Bytes in, calls out; nothing of the content is trusted.
 */
#pragma once

#include "base/err.h"

enum {
    GITINDEX_SIZE_MAX = 512 * 1024 * 1024,
    GITINDEX_PATH_MAX = 4096,
};

struct gitindex_entry {
    const char *path;                       /* gone after the call, like id */
    const unsigned char *id;                /* of the content, which need not exist */
    size_t id_len;                          /* 20, or 32 with SHA-256 */
    uint32_t mode, size, mtime_s, mtime_ns; /* the file when git looked last, as far as 32 bits go; 0: git knows no more */
};

/* Negative ends the reading. Submodules and folders of a sparse index are left out. */
typedef int gitindex_fn(const struct gitindex_entry *e, void *arg, struct err *err);

/* -EBADMSG: no index, or one that this reader does not understand (such as a split one); err says which. */
int gitindex_parse(const unsigned char *data, size_t len, gitindex_fn *each, void *arg, struct err *err);
/* The same with submodules (mode 0160000) and folders of a sparse index (0040000). */
int gitindex_parse_all(const unsigned char *data, size_t len, gitindex_fn *each, void *arg, struct err *err);

/* The index of the repository whose top is the folder open as fd; also if .git is a file, as in a worktree. Returns 1, or 0 if
 * there is no repository or nothing was ever added to it. */
int gitindex_read(int fd, gitindex_fn *each, void *arg, struct err *err);
/* The same for a git directory that is open already (O_PATH is enough). */
int gitindex_read_in(int git_dir, gitindex_fn *each, void *arg, struct err *err);
