/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `bawn apply`, `discard`, `rollback` and `review --interactive` do with the changes of a run. Each operation is in the audit log
 * before it is done. A result is filled as far as the operation came, also if it failed: notes in it are worth showing.
 */
#pragma once

#include "base/strv.h"
#include "ops/changes/changes_classes.h"
#include "ops/changes/run_pick.h"
#include "workspace/apply/apply.h"

struct err;

/* -- apply -------------------------------------------------------------------------------------------------------------- */

/* Whether the changes of one class come in, which are the riskiest first. */
struct changes_question {
    const char *run;
    enum changes_class class;
    const struct changes_verdict *const *v;
    size_t n;
};
enum changes_answer { CHANGES_LEAVE, CHANGES_TAKE, CHANGES_STOP /* nothing at all is done */ };
typedef enum changes_answer changes_ask_fn(const struct changes_question *q, void *arg);

struct changes_apply {
    const char *directory, *run; /* as in struct run_pick_opts */
    struct strv only, except;    /* patterns of .gitignore's syntax; empty: all, none */
    enum apply_conflict conflict;
    bool links_out; /* symbolic links that may lead out of the workspace, too */
    bool dry_run;
    unsigned classes;    /* set: only these, and what has no risk. 0: all, if there is no high risk or `ask` says so */
    changes_ask_fn *ask; /* about each class, if there is a high risk; NULL: nothing is done then */
    void *ask_arg;
};
void changes_apply_done(struct changes_apply *q);

struct changes_applied {
    struct run_pick pick;
    struct change_set set;
    struct strv risky;            /* changes of high risk, those of CHANGES_HIGH first: nothing was done, and result is empty */
    size_t usual;                 /* how many of them are CHANGES_DEPENDENCIES; they come last */
    bool stopped;                 /* by an answer: nothing was done */
    size_t left[CHANGES_CLASSES]; /* stay in the run by an answer or for their class */
    struct apply_result result;   /* result.conflicts: nothing was done */
    bool unlogged;                /* it was not done, and that is missing in the audit log */
};
#define CHANGES_APPLIED_INIT \
    { .pick = RUN_PICK_INIT, .set = CHANGE_SET_INIT }
void changes_applied_done(struct changes_applied *a);

int changes_apply(const struct changes_apply *q, struct changes_applied *ret, struct err *err);

/* Takes the last apply, or rollback, of a run back. ret_left: what changed since and stays, unless force. p: from run_pick(). */
int changes_undo(struct run_pick *p, bool force, struct strv *ret_left, struct err *err);

/* -- discard ------------------------------------------------------------------------------------------------------------ */

/* Between open and discard the user can be asked. */
struct changes_discard {
    struct run_pick pick;
    struct change_set before, after;
    struct strv left; /* what cannot be discarded alone */
};
#define CHANGES_DISCARD_INIT \
    { .pick = RUN_PICK_INIT, .before = CHANGE_SET_INIT, .after = CHANGE_SET_INIT }
void changes_discard_done(struct changes_discard *d);

/* Locks the run and finds its changes. Refuses a run in direct mode. */
int changes_discard_open(const char *directory, const char *run, struct changes_discard *ret, struct err *err);
/* Only what these patterns name; `after` is what the run has left. */
int changes_discard_some(struct changes_discard *d, const struct strv *only, struct err *err);
/* The whole run; takes d->pick.rd. */
int changes_discard_run(struct changes_discard *d, struct err *err);

/* -- rollback ----------------------------------------------------------------------------------------------------------- */

struct changes_rollback {
    const char *directory, *run;
    struct strv only;
    bool force; /* also files that changed since the run ended */
    bool dry_run;
};

struct changes_rolled_back {
    struct run_pick pick;
    struct change_set set, after; /* before and after; what is in both and not in left was not asked for */
    struct strv left;             /* changed since, in use, or without their old content */
};
#define CHANGES_ROLLED_BACK_INIT \
    { .pick = RUN_PICK_INIT, .set = CHANGE_SET_INIT, .after = CHANGE_SET_INIT }
void changes_rolled_back_done(struct changes_rolled_back *r);

int changes_rollback(const struct changes_rollback *q, struct changes_rolled_back *ret, struct err *err);

/* -- one decision for each change ---------------------------------------------------------------------------------------- */

enum changes_decision { DECIDE_LEAVE, DECIDE_APPLY, DECIDE_DISCARD, DECIDE_ROLL_BACK };

struct changes_decided {
    struct apply_result applied; /* with conflicts nothing was applied or discarded, and -EEXIST is returned */
    struct strv not_discarded, not_rolled_back;
    struct change *chosen; /* private: what `applied` points to */
};
void changes_decided_done(struct changes_decided *d);

/* All at once, so that one undo takes it back. v: one for each change of s, which is from run_pick_changes(). p is locked. */
int changes_decide(struct run_pick *p, const struct change_set *s, const enum changes_decision *v, struct changes_decided *ret,
                   struct err *err);
