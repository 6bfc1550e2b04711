/* SPDX-License-Identifier: Apache-2.0 */
/* What an apply would do with each change, found out without touching anything. Private to apply. */
#pragma once

#include "workspace/apply/apply.h"
#include "workspace/apply/apply_filter.h"
#include "workspace/copy/manifest.h"

struct plan_item {
    enum apply_outcome outcome;
    char why[sizeof((struct apply_item *)NULL)->why];
    bool content;                           /* what it is or holds is replaced; else only the mode */
    bool merge;                             /* by the merge of three versions */
    bool leaves;                            /* it can leave the run */
    mode_t mode;                            /* permission bits afterwards */
    struct manifest_stamp host, from, new_; /* what was seen; mode 0: nothing */
    char *beside;                           /* path for the run's version: both stay */
};

struct apply_plan {
    struct rundir *rd;
    const struct change_set *set;
    int workspace;
    const struct apply_opts *opts;
    struct apply_filter filter;
    struct plan_item *v;         /* one per change */
    const struct change **froms; /* of renames, sorted by `from` */
    size_t n_froms;
};

int apply_plan_make(struct apply_plan *p, struct err *err); /* rd, set, workspace and opts are filled in */
void apply_plan_done(struct apply_plan *p);

/* The three versions of a file, as the plan has seen them. */
int apply_plan_merge(const struct apply_plan *p, size_t item, int *ret_fd, struct err *err);
int apply_plan_open_new(const struct apply_plan *p, size_t item, struct err *err);

/* apply_judge.c: one change by itself. */
void apply_plan_judge(const struct apply_plan *p, size_t item, struct plan_item *ret);

/* What the host has at the path: 0 with the stamp (mode 0: nothing), or -errno if something is in the way. */
int apply_plan_look(const struct apply_plan *p, const char *path, struct manifest_stamp *ret);
/* The permission bits that a change asks for, where the host has `host`. */
mode_t apply_plan_mode(const struct change *c, mode_t host);
/* The change at or from this path is going to be done. */
bool apply_plan_goes(const struct apply_plan *p, const char *path);
void apply_plan_say(struct plan_item *it, enum apply_outcome outcome, const char *why);
