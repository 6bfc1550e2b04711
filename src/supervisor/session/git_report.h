/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commits, refs and the index that an ended run left would bring out at the user's next checkout (review/git/gitnew.h), asked
 * of bawn-review: sync mode does not carry it, direct mode cannot hold it back and says it loudly.
 */
#pragma once

#include "base/strv.h"

struct change_set;
struct err;
struct ignore;
struct rundir;

struct git_report {
    struct strv hold;  /* see struct gitnew */
    struct strv lines; /* the high risks, one line each, safe for a terminal */
    bool failed;       /* it could not be examined: nothing of git's state but objects is to be carried */
};
void git_report_done(struct git_report *g);

/* Something of git's state changed, so that it is worth asking. */
bool git_report_needed(const struct change_set *set);
/* Failing to examine is part of the report, with a line; negative only if memory ran out. */
int git_report_make(const struct rundir *rd, int workspace, const struct ignore *rules, const struct ignore *protect,
                    struct git_report *ret, struct err *err);
/* What follows the first ".git/" of a path; NULL: it is in no git directory. */
const char *git_report_part(const char *path);
/* Sync mode must not carry this path. */
bool git_report_holds(const struct git_report *g, const char *path);
void git_report_log(const struct git_report *g, const char *run);
