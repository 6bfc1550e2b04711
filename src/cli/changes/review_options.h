/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn review` and `bawn diff` have in common: how a run is chosen, and how its report comes to the user. */
#pragma once

#include "base/strv.h"
#include "cli/verb.h"
#include "ops/changes/run_pick.h"

enum review_opt {
    REVIEW_DIRECTORY = 1,
    REVIEW_JSON,
    REVIEW_SARIF,
    REVIEW_INTERACTIVE,
    REVIEW_DIFF,
    REVIEW_STAT,
    REVIEW_NAME_ONLY,
    REVIEW_ONLY,
    REVIEW_LIST,
    REVIEW_FAIL_ON,
    REVIEW_NO_PAGER,
    REVIEW_COLOUR
};

struct review_args {
    const char *directory, *format, *fail_on;
    bool interactive, diff, list, no_pager;
    const char *colour;    /* "auto", "always", "never" */
    struct strv only;      /* patterns */
    struct strv operands;  /* in their order; options may stand between them */
    const char *exclusive; /* the option that chose the format, for the error if there are two */
};
int review_args_parse(const struct opt *opts, size_t n, int argc, char **argv, struct review_args *ret, struct err *err);
void review_args_done(struct review_args *a);

bool review_colours(const struct review_args *a);
/* Options for bawn-review that say which changes, and how they look. */
int review_words(const struct review_args *a, struct strv *ret, struct err *err);
/* Runs bawn-review and shows what it says; words (taken) are more of its options. Returns its exit status, or negative. */
int review_show(const struct review_args *a, const char *task, const struct run_pick *p, struct strv *words, struct err *err);

/* --list */
int review_list(const struct review_args *a, struct err *err);
