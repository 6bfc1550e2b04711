/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs bawn-review, the jailed program that reads what an agent wrote. It gets open folders, an empty environment and pipes;
 * nothing that it says is trusted more than the files it reads.
 */
#pragma once

#include "base/strv.h"
#include "review/risk/rules.h"
#include "workspace/run/rundir.h"

struct change_set;
struct ignore;

struct review_job {
    const char *task; /* "review" or "diff" */
    const struct rundir *rd;
    int workspace;
    struct review_rules rules; /* the caller's */
    struct strv words;         /* options of review/request.h, such as "--format=json" */
};
void review_job_done(struct review_job *j);

/* Gets what it prints, piece by piece. */
typedef void review_sink_fn(const char *data, size_t len, void *arg);

/* Returns its exit status, 0 or 1; negative if it failed. */
int review_spawn(const struct review_job *job, review_sink_fn *sink, void *arg, struct err *err);

/* An apply_merge_fn (workspace/apply/apply.h): the merge is done by bawn-review, too. arg is not used. */
int review_merge(int base, int ours, int theirs, int *ret_fd, void *arg, struct err *err);

/*
 * What the commits, refs and the index that an ended run left would bring out at the user's next checkout (review/git/gitnew.h): sync mode
 * does not carry it, direct mode cannot hold it back and says it loudly.
 */
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
