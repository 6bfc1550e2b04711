/* The supervisor's one loop: signals, the control socket, standard streams, time and disk. */
#pragma once

#include <signal.h>

#include "supervisor/gate.h"
#include "supervisor/guard.h"
#include "supervisor/latecomers.h"
#include "supervisor/run.h"
#include "supervisor/stdio.h"
#include "supervisor/watch.h"

struct loop {
    struct sandbox *sandbox;
    struct stdio *io;
    struct watch watch;
    int signals; /* signalfd */
    struct latecomers *latecomers;
    struct guard *guard;
    struct gatekeeper *gate; /* NULL: no network */
    struct run_result *result;
    struct err *err;     /* why it never started */
    bool ended, failed;  /* the command is over; bawn-init could not start it */
    uint64_t kill_at_ms; /* after a polite end was asked for; 0: not */
};

/* Blocks what the loop wants to read from a descriptor; *ret_old is the mask for the command. */
int loop_signals(sigset_t *ret_old, int *ret_fd, struct err *err);
int loop_run(struct loop *l);
/* Forwards what is left after everything inside has ended; a signal that asks us to end gives it up. */
void loop_drain(struct loop *l);
