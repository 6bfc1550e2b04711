/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of all logs, merged by time, for `bawn log`. Each call of view_collect() gives what was added since the one before,
 * across rotations. Files are mapped, so lines that are not shown cost no memory.
 */
#pragma once

#include "base/strv.h"

struct err;
struct view;

enum { VIEW_TIME_SIZE = 32, VIEW_NAMES_MAX = 4096 };

struct view_filter {
    const char *name, *id;                             /* of a sandbox or a run, or the beginning of its id; NULL: all */
    unsigned types;                                    /* set of 1 << enum audit_type; 0: all */
    char since[VIEW_TIME_SIZE], until[VIEW_TIME_SIZE]; /* times as lines have them, or the beginning of one; "": no limit */
};

struct view_line {
    const char *text; /* without the '\n'; valid until the next view_collect() */
    size_t len;
    const char *time; /* into text: VIEW_TIME digits, not ended */
    size_t order;     /* in the files */
};

int view_new(int dir, struct view **ret, struct err *err); /* dir: borrowed */
void view_freep(struct view **v);

/* *ret belongs to v. */
int view_collect(struct view *v, const struct view_filter *f, struct view_line **ret, size_t *ret_n, struct err *err);
bool view_saw(const struct view *v); /* any line so far had the name of the filter */
/* Of the sandboxes that were seen, to name the nearest; only some if there are many. */
const struct strv *view_names(const struct view *v);
