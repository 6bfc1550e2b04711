/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a persistent sandbox, or of a run, that were not applied. They are deleted only on request. */
#pragma once

#include "workspace/run/rundir.h"

struct box;
struct err;

enum box_changes_kind {
    BOX_CHANGES_NO_RUN, /* it has no files apart from the workspace */
    BOX_CHANGES_NONE,   /* there is a run, and nothing waits in it */
    BOX_CHANGES_WAIT,
    BOX_CHANGES_UNKNOWN /* the workspace is gone, or the run is in use */
};

struct box_changes {
    enum box_changes_kind kind;
    size_t n;      /* files, those under hidden names left out */
    bool commits;  /* worktree: the branch has commits that are not merged */
    char why[300]; /* BOX_CHANGES_UNKNOWN */
};

/* home: may be NULL. */
void box_changes_look(const char *home, const struct box *b, struct box_changes *ret);
/* The same of the run of this name. */
void box_changes_of_run(const char *name, struct box_changes *ret);
/* "3 changed files wait to be applied", or why that is not known. */
void box_changes_words(const struct box_changes *c, char ret[static 400]);
/* Removes the run with all it has. -EEXIST: something waits in it, and `discard` is false. */
int box_changes_remove(const char *name, bool discard, struct err *err);
