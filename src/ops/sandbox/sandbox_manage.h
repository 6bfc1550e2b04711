/* SPDX-License-Identifier: Apache-2.0 */
/* Ending, removing and renaming persistent sandboxes. */
#pragma once

#include "base/err.h"
#include "base/strv.h"

enum sandbox_end { SANDBOX_END_STOPPED, SANDBOX_END_KILLED, SANDBOX_END_NOT_RUNNING, SANDBOX_END_REMOVED, SANDBOX_END_FAILED };

/* What became of each. */
struct sandbox_outcome {
    char *name; /* as it was named; NULL: the project's own, which could not be found */
    enum sandbox_end end;
    struct err err; /* SANDBOX_END_FAILED: why */
};
struct sandbox_outcomes {
    struct sandbox_outcome *v;
    size_t n;
};
void sandbox_outcomes_done(struct sandbox_outcomes *l);

struct sandbox_stop {
    char *const *names;
    size_t n;         /* 0: the project's own */
    const char *dir;  /* its workspace; NULL: the current folder */
    bool all;         /* every sandbox that runs; no names */
    bool force;       /* kill a keeper that does not answer, or not end */
    uint64_t seconds; /* that programs have to end by themselves */
};
/* Asks all of them first, then waits for their ends. Fails only if none could be tried. */
int sandbox_stop(const struct sandbox_stop *s, struct sandbox_outcomes *ret, struct err *err);

struct sandbox_remove {
    char *const *names;
    size_t n;
    bool all_stopped;   /* every sandbox that does not run; no names */
    bool force;         /* stop it first if it runs; also one whose files are damaged */
    bool discard, keep; /* changes that were not applied: remove them, or leave them as a run; neither: the sandbox stays */
};
/* Goes on with the others after one that stays. */
int sandbox_remove(const struct sandbox_remove *q, struct sandbox_outcomes *ret, struct err *err);

int sandbox_rename(const char *old, const char *name, struct err *err);
