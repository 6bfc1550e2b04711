/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints and forks of persistent sandboxes. A sandbox that is copied is frozen if it runs, and locked if it does not. */
#pragma once

#include "base/progress.h"
#include "base/strv.h"
#include "supervisor/clone/clone_box.h"

struct err;
struct notice;

/* tag NULL: one is made of the time. progress: may be NULL. */
int sandbox_checkpoint(const char *sandbox, const char *tag, const struct progress *progress, struct checkpoint *ret,
                       struct err *err);
int sandbox_checkpoints(const char *sandbox, struct checkpoint_list *ret, struct err *err);
int sandbox_checkpoint_remove(const char *sandbox, const char *tag, struct err *err);

enum { FORK_COUNT_MAX = 100 };

struct fork_request {
    const char *sandbox;
    uint64_t count;   /* 0: one, named `base` if that is given */
    const char *base; /* they are BASE-1, BASE-2, ...; NULL: the sandbox's name */
    const char *from; /* a checkpoint; NULL: the present */
    bool start;       /* start them, too */
    const struct progress *progress;
    void (*copied)(void *arg); /* the copies are made, progress is over; may be NULL */
    void *arg;
    const struct notice *notice;
};
struct fork_result {
    struct strv names, ids;
};
/* The result has what was made, also after a failure: those before it are there. */
int sandbox_fork(const struct fork_request *q, struct fork_result *ret, struct err *err);
void fork_result_done(struct fork_result *r);
