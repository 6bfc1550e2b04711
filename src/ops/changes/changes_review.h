/* SPDX-License-Identifier: Apache-2.0 */
/* Asks bawn-review, which runs in a jail, about the changes of a run. */
#pragma once

#include "base/buf.h"
#include "base/strv.h"
#include "ops/changes/run_pick.h"
#include "workspace/apply/apply.h"

enum { CHANGES_PATHS_MAX = 1024 * 1024 * 1024 };

/* A report, for `bawn review` and `diff`. */
struct changes_report {
    const char *task;    /* "review" or "diff" */
    const char *format;  /* of review/request.h: "text", "json", "patch", ... NULL: text */
    const char *fail_on; /* level; NULL: the default */
    const char *path;    /* only this one, as a block of its own; NULL: all */
    const struct strv *only;
    bool diff, must_match, colour, terminal;
};
/* sink gets the text piece by piece. Returns 0, or 1 if something is risky. */
int changes_report(const struct run_pick *p, const struct changes_report *q,
                   void (*sink)(const char *data, size_t len, void *arg), void *arg, struct err *err);
/* "level" NUL "path" NUL ..., the riskiest first. The bytes come from a process that reads hostile files. */
int changes_paths(const struct run_pick *p, const struct strv *only, struct buf *ret, struct err *err);

/* Paths of high risk among what `r` says would be brought in. A change that the review does not name counts as one: it was not
 * judged. Negative: nothing could be judged. */
int changes_risks(const struct run_pick *p, const struct apply_result *r, struct strv *ret_risky, struct err *err);
