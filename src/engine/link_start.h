/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-link, for any engine whose sandboxes are on another kernel (link/near.h): it gets what bawn-init would have had, and the supervisor has the
 * same control socket and listeners as ever.
 */
#pragma once

#include "engine/engine.h"

/* Before the plan is carried out: sockets of the host's are of no use inside, so the far end listens there itself. */
void link_plan(struct plan *p);
/* Starts it, and makes sb->shown for the sockets of the plan. control: bawn-init's end; stream: to the far end. Both are borrowed. */
int link_start(const struct engine_request *req, int control, int start, int stream, struct sandbox *sb, struct err *err);
/* It goes by itself when the far end is gone and everything is passed on; when it ended first, it is reaped. */
void link_stop(struct sandbox *sb);
