/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs bawn-review, the jailed program that reads what an agent wrote. It gets open folders, an empty environment and pipes;
 * nothing that it says is trusted more than the files it reads.
 */
#pragma once

#include "base/strv.h"
#include "review/risk/rules.h"
#include "workspace/run/rundir.h"

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
