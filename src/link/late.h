/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a job comes after its output. What a command wrote before it ended is in its pipes when bawn-init says that it has ended, and the
 * supervisor takes what it finds then: it does not wait for others that still have the pipe. So the message waits, at both ends, until that is
 * passed on; it waits for no channel but those of its job, and, once it was signalled to end, not for one whose
 * reader takes nothing for a while.
 */
#pragma once

#include "link/mux.h"
#include "proto/initmsg.h"

enum { LATE_STUCK_MS = 500, LATE_LOOK_MS = 100 /* the loop turns so often while there is one */ };

struct late {
    size_t n;
    struct init_msg msg[LINK_CHANNELS]; /* by a channel of its job that is not so far */
};

/* A message to bawn-init: does it end a job, or all? */
void late_signal(struct mux *m, const struct init_msg *msg);
/* Has the end of this job to wait? Then it is taken. */
bool late_park(struct late *l, struct mux *m, const struct init_msg *msg);
/* One that need not wait any more; its channel, or NULL. It stays until late_done(). */
struct chan *late_due(struct late *l, struct mux *m);
void late_done(struct late *l, struct chan *c);
