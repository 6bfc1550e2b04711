/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which persistent sandbox a verb is about: the one that was named (by name or id), or, without one, the project's own
 * (box_name_for() of the workspace). The messages about one that is missing, stopped, running, dead or another user's are here, for every verb.
 */
#pragma once

#include "registry/registry.h"

struct err;

enum sandbox_need {
    SANDBOX_ANY,     /* for looking: nothing is locked */
    SANDBOX_RUNNING, /* its keeper lives */
    SANDBOX_STOPPED  /* comes back locked by us: it is neither started nor removed meanwhile. -EBUSY: it runs */
};

struct sandbox_pick_opts {
    const char *name;      /* NULL: the project's own */
    const char *directory; /* -C: the workspace; NULL: the current folder. Not asked if a name is given */
    enum sandbox_need need;
};

struct sandbox_pick {
    char *boxes; /* folder of all sandboxes */
    struct box box;
};
#define SANDBOX_PICK_INIT \
    { .box = BOX_INIT }

/* -EINVAL (exit status 64): no name at all; -ENOENT: no such sandbox, with the nearest one; -ENOTCONN: it does not run,
 * with the remedy; -EBUSY: it runs; -EPERM: another user's. Why one does not run is also said by exec_not_running()
 * (supervisor/keep/exec_client.h). */
int sandbox_pick(const struct sandbox_pick_opts *o, struct sandbox_pick *ret, struct err *err);
void sandbox_pick_done(struct sandbox_pick *p);

/* The folder of all sandboxes; fails if the user has no place for one. */
int sandbox_boxes(char **ret, struct err *err);
/* The name, checked, or the project's; looks at no file of a sandbox. An id is as good as a name. */
int sandbox_name(const char *name, const char *directory, char ret[static BOX_ID_MAX + 1], struct err *err);
/* Waits for the end of its keeper, at most timeout_ms (-1: as long as it takes). 0; -ETIMEDOUT; -ESRCH: it has none yet. */
int sandbox_wait_end(const struct box *b, int timeout_ms);
/* Asks its keeper to stop, and to kill what is left inside after so many seconds; waits for one that is just being started, not for
 * the end. b is then as it is now. -ESRCH: it has ended, or is gone. */
int sandbox_ask_stop(struct box *b, unsigned seconds, struct err *err);
/* The path of its keeper's control socket (spec/control-socket.md), for control_call(). */
int sandbox_control(const struct box *b, char **ret, struct err *err);
