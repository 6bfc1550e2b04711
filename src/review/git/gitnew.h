/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run left in git's own state that a later checkout, reset, merge, switch or stash pop of the user's would bring out:
 * commits behind new or moved refs, reflogs and stashes, and the index. Each path in there that is new is judged by the same rules
 * as a file. The risks belong to the change that carries them (".git/refs/heads/main", ".git/index"), because that
 * is what is applied or held back.
 *
 * Nothing of it is silent: what is past a ceiling, missing, damaged or of a form that is not known is a high risk itself.
 */
#pragma once

#include "review/risk/risk.h"

struct err;

enum {
    GITNEW_FILE_MAX = 256 * 1024 * 1024, /* an index, packed-refs, a reflog */
    GITNEW_CHECKED_MAX = 1000,           /* folders that might be repositories */
    GITNEW_REPOS_MAX = 64,               /* repositories in one change set: submodules, nested ones */
    GITNEW_TIPS_MAX = 100 * 1000,        /* new ids in one file */
    GITNEW_COMMITS_MAX = 10 * 1000,      /* new commits of one repository */
    GITNEW_GRAPH_MAX = 200 * 1000,       /* commits in a commit-graph */
    GITNEW_OLD_MAX = 50 * 1000,          /* old commits that are looked at to know which are new */
    GITNEW_STEPS_MAX = 20 * 1000 * 1000, /* entries of trees that are compared */
    GITNEW_JUDGED_MAX = 100 * 1000,      /* paths in commits and indexes that are judged: 15 seconds or so */
    GITNEW_DEPTH_MAX = 128,              /* folders in a tree */
    GITNEW_PARENTS_MAX = 64,             /* of one commit */
    GITNEW_SHOWN_MAX = 50,               /* risks of one level at one place; then "and N more" */
};

struct gitnew_item {
    const struct change *carrier;
    struct risk_list risks;
    size_t more[RISK_LEVELS]; /* left out by GITNEW_SHOWN_MAX */
    enum risk_level level;
};

struct gitnew {
    struct gitnew_item *v;
    size_t n;
    /* What sync mode must not carry: a git directory of which refs or index bring something protected (with a '/' at its
     * end: all of it but for objects/), or the path of a single object. */
    struct strv hold;
    size_t judged;         /* of GITNEW_JUDGED_MAX */
    uint64_t steps;        /* of GITNEW_STEPS_MAX */
    uint64_t spent;        /* of OBJECTS_BYTES_MAX */
    struct change *branch; /* worktree mode: the branch, which no change set has; else NULL */
};
void gitnew_done(struct gitnew *n);

struct gitnew_args {
    const struct risk_context *ctx;
    enum workspace_mode mode;
    int run;          /* worktree mode: folder of the run */
    const char *name; /* worktree mode: of the run; its branch is bawn/NAME */
    const char *base; /* worktree mode: the commit at which the branch began */
};
int gitnew_judge(const struct gitnew_args *a, struct gitnew *ret, struct err *err);
