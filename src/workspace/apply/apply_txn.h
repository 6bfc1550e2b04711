/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many paths of a workspace changed together: all of them, or none. Private to apply and rollback.
 *
 * Theory of operation. In undo.new/ of the run's folder
 *   1. a journal gets what is at every path, content included, before anything is touched;
 *   2. new files are written beside their targets, and a second journal (after/) gets what each path will be;
 *   3. paths are removed, made, moved into place, each only if what the plan saw is still there (place.h);
 *   4. undo.new/ becomes undo/: from now on it is done.
 * An undo.new/ that is found means that step 4 was not reached. A path that is as in after/ gets back what the journal has. One that
 * is as in the journal was not reached. One that is neither was changed by another process since, and stays.
 */
#pragma once

#include "base/strv.h"
#include "workspace/copy/manifest.h"
#include "workspace/run/journal.h"
#include "workspace/run/rundir.h"

#define APPLY_UNDO "undo"
#define APPLY_UNDO_NEW "undo.new"
#define APPLY_UNDO_OLD "undo.old"
#define APPLY_UNDO_GONE "undo.gone"
#define APPLY_AFTER "after"
#define APPLY_PARKED "parked" /* overlay: what left the run, as it was in upper/ */

/* In the order in which they are done: deletions from the leaves up, then folders from the root down, then what is in them. */
enum apply_step_kind { STEP_REMOVE, STEP_RMDIR, STEP_MKDIR, STEP_FILE, STEP_LINK, STEP_MODE };

struct apply_step {
    enum apply_step_kind kind;
    char *path;
    mode_t mode;                  /* MKDIR, FILE, MODE: permission bits */
    const char *link;             /* LINK: lives as long as the caller's plan */
    size_t item;                  /* FILE: for apply_open_fn */
    struct manifest_stamp expect; /* what the plan saw there; mode 0: nothing */
    bool replaced;                /* REMOVE, RMDIR: another step makes something new there */
    bool replaces;                /* the other step */
    bool shared;                  /* the file has other names, perhaps in other steps */
    char *temp;                   /* staged */
};

struct apply_content {
    int fd;
    uint64_t mtime_ns; /* 0: now */
    struct buf xattrs; /* block of xattrs.h */
};

/* Opens the content of a STEP_FILE. */
typedef int apply_open_fn(const struct apply_step *s, struct apply_content *ret, void *arg, struct err *err);
/* Mode of a folder that has to be made because something comes into it. */
typedef mode_t apply_folder_fn(const char *path, void *arg);

struct apply_txn {
    struct rundir *rd;
    int workspace;
    apply_open_fn *open;
    apply_folder_fn *folder;
    void *arg;
    struct apply_step *v;
    size_t n;
    int dir; /* undo.new/; -1 at first */
    struct journal *before, *after;
};
void apply_txn_done(struct apply_txn *t);

int apply_txn_add(struct apply_txn *t, const struct apply_step *step, struct err *err); /* copies the path */
/* The step that removes what the host has at the path; none if that is nothing. */
int apply_txn_remove(struct apply_txn *t, const char *path, const struct manifest_stamp *host, bool replaced, struct err *err);
/* On failure nothing has changed, unless the error says that taking back failed too. */
int apply_txn_run(struct apply_txn *t, struct err *err);

/* Permission bits of a file or folder, no link followed, of what the stamp says and nothing else. */
int apply_set_mode(int root, const char *path, mode_t mode, const struct manifest_stamp *expect, struct err *err);

/* The workspace has at the path the content and attributes that the journal stored. */
bool apply_is_as_stored(const struct journal *j, const struct journal_entry *e, int workspace);

enum take_back { TAKE_BACK_CRASH, TAKE_BACK_ASKED, TAKE_BACK_FORCED };
/* Restores what the journals in `dir` say; what was changed since by another process is named in left. */
int apply_take_back(int workspace, int dir, enum take_back how, struct strv *left, struct err *err);
/* undo.new/ becomes undo/. */
int apply_undo_publish(struct rundir *rd, struct err *err);
int apply_undo_drop(struct rundir *rd, const char *name, struct err *err);
