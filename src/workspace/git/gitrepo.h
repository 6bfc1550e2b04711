/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The repository of a workspace: where its parts are, and its refs, read and written without git. Everything is opened by
 * descriptor and follows no link; the workspace may have been written by an agent in an earlier run.
 */
#pragma once

#include "base/buf.h"
#include "base/strv.h"

struct err;

enum {
    GIT_HEX_SIZE = 65, /* an object name of SHA-256 with its NUL */
    GIT_OBJECT_NAME_SIZE = GIT_HEX_SIZE + 1,
    GITREPO_FILE_MAX = 4096,               /* HEAD, commondir, a loose ref */
    GITREPO_PACKED_MAX = 64 * 1024 * 1024, /* packed-refs */
    GITREPO_REFS_MAX = 500000,
    GITREPO_DEPTH_MAX = 32, /* folders below refs/ */
    GITREPO_REF_MAX = 1024,
};

struct gitrepo {
    int dir;     /* git directory of this working tree: HEAD, index */
    int common;  /* refs, configuration, worktrees; the same folder unless the workspace is a linked worktree itself */
    int objects; /* below common */
    char *common_path, *objects_path;
    bool sha256;
    bool linked;        /* the workspace is a linked worktree: what core.bare and core.worktree say is about another */
    struct buf shallow; /* content of that file; empty: the history is whole */
    struct buf config;  /* content of the configuration */
};
#define GITREPO_INIT \
    { .dir = -1, .common = -1, .objects = -1, .shallow = BUF_INIT(GITREPO_PACKED_MAX), .config = BUF_INIT(4 * 1024 * 1024) }

/* -ENOENT: the workspace is not the top of a working tree. -ENOTSUP: one that worktree mode cannot serve, and why. */
int gitrepo_open(int workspace, struct gitrepo *ret, struct err *err);
void gitrepo_done(struct gitrepo *r);

/* A regular file, appended to ret. -ENOENT, -EFBIG, -EINVAL if it is something else. No err: the caller knows what for. */
int gitrepo_read(int dir, const char *name, struct buf *ret);
/* Its first line, without the end; -EBADMSG: it is empty. */
int gitrepo_read_line(int dir, const char *name, struct buf *ret);
/* A new file, open for writing; as root it belongs to the owner of the folder. -EBUSY if it is there (as git's locks are). */
int gitrepo_create(int dir, const char *name, mode_t mode, struct err *err);
/* A file that appears whole or not at all, by way of NAME.lock; on the disk before it has its name. */
int gitrepo_write(int dir, const char *name, const void *data, size_t len, mode_t mode, struct err *err);
/* The same without waiting for the disk: after a power cut within seconds it may be empty. */
int gitrepo_write_soon(int dir, const char *name, const void *data, size_t len, mode_t mode, struct err *err);
/* A folder; one that is there is opened. The same owner. Returns a descriptor. */
int gitrepo_make_dir(int parent, const char *name, mode_t mode, struct err *err);

/* Refs of a git directory, which may be a hostile one. ref: "HEAD" or "refs/...". -ENOENT: there is none. */
int gitrefs_read(int dir, bool sha256, const char *ref, char ret[static GIT_HEX_SIZE], struct err *err);
/* The same for HEAD of the workspace, which may be a linked worktree. -ENOENT: no commit yet. */
int gitrefs_head(const struct gitrepo *r, char ret[static GIT_HEX_SIZE], struct err *err);

struct gitref {
    char *name;
    char hex[GIT_HEX_SIZE];
};
struct gitref_list {
    struct gitref *v; /* sorted by name, each once */
    size_t n;
};
/* All below refs/heads, refs/tags and refs/remotes; symbolic ones as what they lead to. */
int gitrefs_list(int dir, bool sha256, struct gitref_list *ret, struct err *err);
void gitref_list_done(struct gitref_list *l);

/* Moves refs/heads/GROUP/NAME under git's own locks, if it is at `old` (NULL: if it does not exist); to NULL: deletes it.
 * -EEXIST, -ESTALE: it is elsewhere; -EBUSY: git holds the lock. */
int gitrefs_move(const struct gitrepo *r, const char *group, const char *name, const char *old, const char *to, struct err *err);

bool git_is_hex(const char *s, size_t len, bool sha256);
/* "ab/cdef...": a loose object below objects/. */
void git_object_name(const unsigned char *id, size_t len, char ret[static GIT_OBJECT_NAME_SIZE]);
