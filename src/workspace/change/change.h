/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The change set of a run: how what it left differs from what was there before. Needs no git; the same for every mode:
 *
 *     mode            new side           old side
 *     direct          the workspace      the journal (journal.h)
 *     overlay         upper/             the workspace, or the journal for what the host changed meanwhile
 *     sync, worktree  tree/ + manifest   the same
 *
 * Reading only; every file is opened below its root without following links, whatever is swapped meanwhile.
 */
#pragma once

#include <sys/stat.h>

#include "base/strv.h"
#include "workspace/run/rundir.h"

struct err;
struct ignore;
struct journal;

enum change_kind { CHANGE_ADDED, CHANGE_MODIFIED, CHANGE_DELETED, CHANGE_RENAMED, CHANGE_KINDS };
extern const char *const change_kind_names[CHANGE_KINDS];

/* What differs; a set. */
enum change_what {
    CHANGE_CONTENT = 1,
    CHANGE_MODE = 2,
    CHANGE_LINK = 4,  /* where a symbolic link leads */
    CHANGE_TYPE = 8,  /* a file became a link, a folder a file, ... */
    CHANGE_XATTR = 16 /* user.* attributes */
};

struct change_side {
    mode_t mode; /* with the type; 0: nothing there */
    uint64_t size;
    char *link; /* of a symbolic link; else NULL */
};

struct change {
    enum change_kind kind;
    unsigned what; /* added or deleted: CHANGE_CONTENT of a file, CHANGE_LINK of a link, 0 of anything else */
    char *path;    /* relative to the workspace; bytes, not characters */
    char *from;    /* renamed: the old path (which is not listed as deleted); else NULL */
    struct change_side old_, new_;
    bool hidden;       /* a name that .sandboxignore hides: stays inside, is never applied */
    bool git_ignored;  /* not filled here (review) */
    bool host_changed; /* the workspace's own file changed since the run began: apply must merge or stop. Direct: never set */
    bool old_unknown;  /* the old content was not stored (too large, or the host changed it before the run ended). old_ then is
                          what is next to it, often the host's version now, and must not be taken for a common base; its
                          mode is 0 if not even that is there (the host deleted it) */
};

struct change_set {
    struct change *v; /* sorted by path */
    size_t n;
    struct strv notes; /* lines for the user: what could not be looked at */
    /* for change_open() */
    int new_root, host_root;
    struct journal *journal;
    uint64_t made_ns; /* what has a ctime after this was changed after the set was made */
};
#define CHANGE_SET_INIT \
    { .new_root = -1, .host_root = -1 }

enum { CHANGE_MAX = 1000000, CHANGE_DEPTH_MAX = 256 };

/* workspace: descriptor of the host's folder. hidden: the rules that held in the run. */
int change_set_make(const struct rundir *rd, int workspace, const struct ignore *hidden, struct change_set *ret, struct err *err);
void change_set_done(struct change_set *s);
const struct change *change_find(const struct change_set *s, const char *path);

/* The content of a regular file on one side, or -errno (-ENOENT: none, -ENODATA: not stored). */
int change_open_old(const struct change_set *s, const struct change *c);
int change_open_new(const struct change_set *s, const struct change *c);

/* When a run in overlay, sync or worktree mode has ended: puts the old versions of what it changed into its journal, as long as
 * the host still has them, so that a later change on the host can be merged. */
int change_keep_base(const struct rundir *rd, const struct change_set *s, int workspace, struct err *err);
