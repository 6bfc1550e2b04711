/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn review` and `bawn diff` have in common: how a run is chosen, and how its report comes to the user. */
#pragma once

#include "base/strv.h"
#include "cli/verb.h"
#include "ops/changes/run_pick.h"

struct changes_report;

struct review_args {
    const char *directory, *fail_on;
    struct review_format {
        const char *option, *name; /* the option that chose it, for the error if there are two; NULL: none did */
    } format;
    bool interactive, diff, list, no_pager;
    bool all;                 /* folders of dependencies file by file */
    const char *colour;       /* "always", "never"; NULL, "auto": on a terminal */
    struct strv only, except; /* patterns */
};
/* Runs bawn-review and shows what it says. Returns its exit status, or negative. */
int review_report(const struct run_pick *p, const struct changes_report *q, bool pager, struct err *err);

/* --interactive (review_ask.c): one change after the other, then all that was decided at once, so that one undo takes it back. p is locked.
 * Returns the exit status, or negative. */
int review_ask(struct run_pick *p, const struct review_args *a, struct err *err);
