/*
 * bawn-init: PID 1 of every sandbox of every engine. Static, tiny, not dumpable.
 *
 * Descriptors it is born with: 0, 1, 2 the command's, 3 the control socket, 4 the start message, 5 the guard's socket if there
 * is a guard (spec/init-protocol.md). It opens the pty, locks itself down, starts the command, reaps, passes signals on, and
 * exits when the command does or when the supervisor is gone; the kernel then ends everything else inside. Where there is no
 * pid namespace it ends its descendants itself.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "base/err.h"
#include "init/guard.h"
#include "proto/initmsg.h"

enum { INIT_EARLY_MAX = 16 };

struct init {
    struct init_start start;
    char *bytes; /* what `start` points into */
    int control;
    int tty; /* slave of the pty, -1: none */
    pid_t command;
    sigset_t old_mask;                     /* for the command */
    struct init_msg early[INIT_EARLY_MAX]; /* signals that came before there was a command: it gets them first of all */
    size_t n_early;
    struct guard *guard; /* NULL: none */
};

/* terminal.c */
int terminal_open(struct init *in, struct err *err);
void terminal_foreground(const struct init *in); /* gives the terminal to the command */

/* lockdown.c: rlimits, affinity, no_new_privs, Landlock, capabilities, seccomp; for good */
int lockdown(const struct init_start *s, struct err *err);

/* command.c: returns 0 with in->command set; 1 if execve failed (*ret_errno); negative if it could not be prepared */
int command_start(struct init *in, int *ret_errno, struct err *err);

/* inside.c: INIT_MSG_INSIDE; never waits. inside_connect() returns 0 or -errno. */
int inside_connect(int port, int *ret_fd);
void inside_answer(const struct init *in, const struct init_msg *ask);

/* tree.c */
int tree_kill_descendants(void);             /* until none is left */
uint64_t tree_memory(bool only_descendants); /* bytes of anonymous memory, all together */
