/* SPDX-License-Identifier: Apache-2.0 */
/* The one loop of `bawn run`: signals, the control socket, standard streams, and what the session waits for. */
#pragma once

#include <signal.h>

#include "supervisor/session/session.h"
#include "supervisor/terminal/stdio.h"

struct loop {
    struct session *session;
    struct stdio *io;
    int signals; /* signalfd */
    int parent;  /* run_options.parent; 0: none, or it is gone */
    struct run_result *result;
    struct err *err;     /* why it never started */
    bool ended, failed;  /* the command is over; bawn-init could not start it */
    bool stopping;       /* the user wants the command stopped, as a job of the shell */
    int stop_signal;     /* we stop with this one once everything inside has stopped; 0: not */
    uint64_t kill_at_ms; /* after a polite end was asked for; 0: not */
};

/* Blocks what the loop wants to read from a descriptor; *ret_old is the mask for the command. */
int loop_signals(sigset_t *ret_old, int *ret_fd, struct err *err);
int loop_run(struct loop *l);
bool loop_is_end(uint32_t sig);      /* it asks us to end */
bool loop_asked_to_end(int signals); /* reads what came; true: the user wants no more of it */
/* Forwards what is left after everything inside has ended; a signal that asks us to end gives it up. */
void loop_drain(struct loop *l);
