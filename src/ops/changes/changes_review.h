/* SPDX-License-Identifier: Apache-2.0 */
/* Asks bawn-review, which runs in a jail, about the changes of a run. */
#pragma once

#include "base/strv.h"
#include "ops/changes/run_pick.h"

/* A report, for `bawn review` and `diff`. */
struct changes_report {
    const char *task;    /* "review" or "diff" */
    const char *format;  /* of review/request.h: "text", "json", "patch", ... NULL: text */
    const char *fail_on; /* level; NULL: the default */
    const char *path;    /* only this one, as a block of its own; NULL: all */
    const char *folder;  /* only this folder of dependencies, as a block of its own; NULL: all */
    const struct strv *only, *except;
    bool all; /* folders of dependencies file by file */
    bool diff, must_match, colour, terminal;
};
/* sink gets the text piece by piece. Returns 0, or 1 if something is risky. */
int changes_report(const struct run_pick *p, const struct changes_report *q,
                   void (*sink)(const char *data, size_t len, void *arg), void *arg, struct err *err);
void changes_to_buf(const char *data, size_t len, void *arg); /* a sink; arg: struct buf */
