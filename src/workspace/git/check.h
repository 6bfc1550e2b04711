/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with the rules of a workspace, compared with the recommended set. Judged by effect, not by text: a rule that is
 * wider, or written in another way, is as good as the recommended one.
 */
#pragma once

#include "base/err.h"

enum check_kind {
    CHECK_NO_FILE,    /* no .sandboxignore: the defaults hold, but cannot be reviewed */
    CHECK_MISSING,    /* `pattern` of the recommended set: `path` would not be hidden */
    CHECK_REINCLUDED, /* the same, because `rule` at origin:line shows it */
    CHECK_TRACKED,    /* the file `path` in git's index looks like a secret (`pattern`) */
    CHECK_KINDS,
};
extern const char *const check_kind_names[CHECK_KINDS];

struct check_finding {
    enum check_kind kind;
    const char *pattern; /* in the defaults */
    char *path, *origin, *rule;
    unsigned line;
    bool hidden; /* CHECK_TRACKED: the sandbox does not see it */
};

struct ignore_check {
    struct check_finding *v;
    size_t n;
    bool git; /* the folder is the top of a repository, so tracked files could be looked at */
};

/* A tracked file that a rule of its own shows again (`!/certs/test.pem`) is a decision on record, not a finding. */
int ignore_check(int root, struct ignore_check *ret, struct err *err);
void ignore_check_done(struct ignore_check *c);
