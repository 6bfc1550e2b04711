/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of change.c share; others use change.h. */
#pragma once

#include <limits.h>

#include "workspace/change/change.h"
#include "workspace/hide/ignore.h"
#include "workspace/run/journal.h"

void change_done(struct change *c);

/* What is on one side. Looked at, not opened; content is opened once, when it has to be read. */
struct change_view {
    struct stat st; /* st_mode 0: nothing there */
    char *link;
    bool unknown;                      /* the content of this version is not available */
    int dir;                           /* it is at (dir, name), both of the caller, */
    const char *name;                  /*     or */
    const struct journal_entry *entry; /* it is what the journal says */
};
#define CHANGE_VIEW_INIT \
    { .dir = -1 }

void view_done(struct change_view *v);
/* path may have several parts; no link is followed. What cannot be reached because a part of it is gone, a file or a link is
 * not there: that is success. */
int view_look(int dir, const char *path, struct change_view *ret);
int view_of_entry(const struct journal *j, const struct journal_entry *e, struct change_view *ret);
/* For reading; -ESTALE if it is no longer what it was when it was looked at. */
int view_open(const struct change_view *v, const struct journal *j);

/* Both are there. Returns 1 if something could not be read, which then counts as different; else 0 or -ENOMEM. */
int view_compare(const struct change_view *old, const struct change_view *now, const struct journal *j, unsigned *ret_what);

/* Who a file is, for finding it under another name; all 0: not known. */
struct change_id {
    uint64_t dev, ino;
    uint64_t known_ns; /* deleted: this inode was this file at that time */
    bool copied_up;    /* overlay: made by overlayfs from a file of the host's, of this or another name */
};

/* A change set while it is made. */
struct change_maker {
    const struct rundir *rd;
    const struct ignore *hidden; /* may be NULL */
    struct change_set *set;
    struct change_id *ids; /* of set->v, as long as that is not sorted */
    char path[PATH_MAX];   /* of what is being looked at */
    size_t path_len;
    unsigned depth;
    struct err *err;
    struct ignore_memo near; /* of hidden */
    struct {                 /* direct mode: the folder of the record before, O_PATH; -errno: it cannot be opened; 0: none yet */
        int fd;
        char path[PATH_MAX];
    } folder;
};

struct change_found {
    enum change_kind kind;
    unsigned what;                       /* modified */
    const struct change_view *old, *now; /* NULL: none */
    struct change_id id;
    bool hidden, host_changed;
};
void maker_done(struct change_maker *m);
int maker_add(struct change_maker *m, const struct change_found *f); /* the path is m->path */
/* "'PATH' ...", the path made safe for a terminal. r 0: without a reason. */
int maker_note(struct change_maker *m, const char *path, const char *what, int r);
bool maker_hides(struct change_maker *m, bool is_dir);
/* Compares, and notes what could not be read. */
int maker_compare(struct change_maker *m, const struct change_view *old, const struct change_view *now, unsigned *ret_what);

/* m->path; false: too long. */
bool maker_set_path(struct change_maker *m, const char *path);

/* Calls visit for each entry of the folder (dir, name), with m->path being the entry's path. One that cannot be listed, or lies
 * too deep, becomes a note. The folder's descriptor is given to visit. */
typedef int maker_visit_fn(struct change_maker *m, int folder, const char *name, void *arg);
int maker_each(struct change_maker *m, int dir, const char *name, maker_visit_fn *visit, void *arg);

int change_make_overlay(struct change_maker *m);
int change_make_tree(struct change_maker *m);
/* Turns pairs of deleted and added into renamed. */
int change_find_renames(struct change_maker *m);
