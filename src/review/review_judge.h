/* SPDX-License-Identifier: Apache-2.0 */
/* The change set of a run with the risks of every change: what all reports are made from. */
#pragma once

#include "review/fold/fold.h"
#include "review/git/gitnew.h"
#include "review/request.h"
#include "review/risk/risk.h"

struct review_rules;

struct verdict {
    const struct change *change;
    struct risk_list risks;
    enum risk_level level; /* the highest of them */
    struct fold *fold;     /* it is one of many in this folder; NULL: it stands for itself */
    bool unusual;          /* of high risk, and no honest install brings that */
    bool git;              /* it is of git's own state, and commits or objects were judged with it */
};

struct judgement {
    struct change_set set;
    struct verdict *v; /* what was asked for, in the order of the set */
    size_t n;
    size_t count[RISK_LEVELS];
    struct gitnew git; /* what commits and the index bring; its risks are in v, too */
    struct fold_set folds;
    size_t folded;   /* changes that are in folds */
    size_t left_out; /* changes that --only and --except do not name */
};
#define JUDGEMENT_INIT \
    { .set = CHANGE_SET_INIT }

/* run: descriptor of its folder. now, accepted, protect: see rules.h. */
int judge_run(const struct review_request *q, int run, int workspace, const struct review_rules *rules, struct judgement *ret,
              struct err *err);
void judgement_done(struct judgement *j);

/* Sorted by level, the highest first, then by path; unless all, what is in folds comes after the rest. malloc'ed array of j->n.
 * NULL: no memory. */
const struct verdict **judge_by_risk(const struct judgement *j, bool all);
