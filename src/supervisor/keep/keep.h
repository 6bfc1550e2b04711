/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: supervisor of one persistent sandbox, a process of its own without a terminal, a few hundred KiB. It holds what a run holds
 * (stage, guard, latecomers, gate, limits), and instead of one command serves the exec socket (proto/execmsg.h) and the control socket
 * (spec/control-socket.md). bawn-init stays; each command is a job of it.
 *
 *   Should: end when asked to (`bawn stop`, SIGTERM), when nothing was executed for `idle_timeout`, or when PID 1 inside is gone; then
 *   the workspace is ended as after a run, every trace removed, the lock let go.
 *   Mustn't: wait for a client; hold the terminal, streams or session of the process that started it; outlive its sandbox.
 */
#pragma once

#include "supervisor/session/run.h"

struct box;

struct keep_options {
    struct run_options run; /* argv, argc, tty: not used; name: of the sandbox. resources.timeout holds for each command */
    struct box *box;        /* locked by us; the keeper takes the lock with it */
    const char *profile;    /* for the state; may be NULL */
};

/*
 * Forks the keeper and waits until the sandbox runs (0) or could not be started (error, as if it had happened here; the exit status
 * too). Messages come to our stderr until then; afterwards they go to log/keeper.log. The caller's copy of the lock is closed on success.
 * *ret_wants_copy: as in struct run_result.
 */
int keep_start(const struct keep_options *opt, bool *ret_wants_copy, struct err *err);
