/* SPDX-License-Identifier: Apache-2.0 */
/* What `bawn checkpoint` and `bawn fork` need of the sandbox that is copied: frozen if it runs, locked if it does not. */
#pragma once

#include "ops/sandbox/sandbox_pick.h"
#include "supervisor/clone/clone_box.h"
#include "supervisor/session/progress_bar.h"

struct clone_pick {
    struct sandbox_pick pick;
    char *home, *runs, *control;
    struct progress_bar bar;
    struct progress progress;
    struct clone_opts opts; /* points into the above */
};
#define CLONE_PICK_INIT \
    { .pick = SANDBOX_PICK_INIT, .bar = PROGRESS_BAR_INIT("copying the sandbox") }

/* ret must stay where it is. lock: it must be frozen or locked; false: a checkpoint of it is all that is used. */
int clone_pick(const char *name, bool lock, struct clone_pick *ret, struct err *err);
void clone_pick_done(struct clone_pick *p);
