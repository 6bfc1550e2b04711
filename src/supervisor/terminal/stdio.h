/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard input, output and error of a run, and the user's terminal.
 *
 * Should: look to the command exactly like the descriptors that bawn was started with, and leave the terminal as found.
 * Mustn't: hand in the real terminal (TIOCSTI, ATTACKS 77), a directory, a socket, or a file that can be reopened; change
 * flags of descriptions that are shared with the shell; block; let the sandbox reprogram the terminal (termfilter.h).
 *
 * Call order, for one run (the caller has blocked SIGPIPE SIGWINCH SIGTSTP SIGTTOU SIGTTIN SIGCONT and the signals that
 * it forwards, and reads them from a signalfd):
 *
 *     stdio_reserve(closed)                 first thing in main(), before anything opens a file
 *     stdio_init(&s, &opts, err)            CLEANUP(stdio_done): the terminal is restored on every way out
 *     s.inside[0..2] go to the sandbox; -1 means "the pty's slave" (s.plan.way[i] == STDIO_WAY_PTY)
 *     stdio_close_inside(&s)                once they were passed: else no reader ever sees the end
 *     stdio_attach_master(&s, fd, err)      if s.plan.pty, before the command starts: sets modes and size inside
 *     stdio_start(&s)                       the real terminal changes its mode now, not before: errors print plainly
 *     loop:
 *         n = stdio_poll_fds(&s, pfds, max);  poll(..., min(own timeout, stdio_timeout_ms(&s)))
 *         stdio_handle(&s, pfds, n)
 *         SIGWINCH          stdio_resize(&s)
 *         SIGCONT           stdio_resume(&s): we were stopped behind our back, and the shell has set its own modes
 *         command stopped   stdio_suspend(&s); tty_stop_job(sig); stdio_resume(&s); continue the command
 *     command ended, everything inside killed:
 *         stdio_finish(&s); while (stdio_drain(&s, signal_fd) == 1) handle the signal
 *     stdio_done(&s)
 *
 * Modes. Raw terminal (stdin and screen are terminals): keys pass unchanged, the line discipline inside turns ^C and ^Z
 * into signals. Otherwise the real terminal stays as it is: its lines are relayed, its end of file becomes VEOF
 * inside; when the command itself leaves canonical mode (less or fzf in a pipeline, reading /dev/tty), the real terminal
 * follows and keys are relayed until it returns. Not followed: ECHO alone, so a password typed at a prompt of a
 * command whose output is piped (`bawn run -- ssh-keygen | tee log`) is echoed.
 *
 * No splice(2): it blocks on the user's descriptors unless their flags are changed; and what is relayed is rare (pipes and
 * files pass directly). A relayed input is read ahead: what the command leaves unread is lost to the next reader.
 */
#pragma once

#include <poll.h>
#include <termios.h>

#include "proto/termfilter.h"
#include "supervisor/terminal/stdio_flow.h"
#include "supervisor/terminal/stdio_plan.h"
#include "supervisor/terminal/stdio_prompt.h"

enum { STDIO_POLL_MAX = 6 };

struct stdio_opts {
    int fd[3]; /* the user's descriptors, normally 0 1 2; -1: was closed */
    struct stdio_wish wish;
};

struct stdio_modes {
    struct termios user; /* of the user's terminal, as found */
    bool have_user, raw_on;
    bool set; /* the pty came with modes of its own, and the command may have changed them since */
};

struct stdio {
    struct stdio_plan plan;
    int inside[3]; /* for the sandbox; owned until stdio_close_inside() */

    int host[3]; /* borrowed */
    enum stdio_class cls[3];
    int ours[3];    /* our ends of the relay pipes */
    int own[3];     /* private, non-blocking descriptions of the user's terminals and pipes; -1: none */
    int own_screen; /* instead, for what the pty prints: stdin's terminal, or /dev/null if stdout is closed */
    int dev_tty;    /* for STDIO_TERM_OUTPUT, while the command reads keys */
    int master;
    int tty; /* whose modes and size we follow, one of host[] or dev_tty; -1: no terminal */

    struct stdio_modes modes;
    bool suspended, started, finishing;
    struct stdio_flow in, keys, out, err, screen;
    struct termfilter filters[3];   /* by stream that they write to */
    bool line_open;                 /* forced pty: the last byte that went in was no newline */
    uint64_t hup_until, last_moved; /* CLOCK_MONOTONIC, ms */
    struct stdio_prompt prompt;     /* a question of ours, over what the command shows */
};

/* Opens /dev/null on those of 0, 1, 2 that are closed, so that no file of ours lands there, and reports which. */
int stdio_reserve(bool ret_closed[3]);

int stdio_init(struct stdio *s, const struct stdio_opts *opts, struct err *err);
void stdio_done(struct stdio *s);
void stdio_close_inside(struct stdio *s);

/* The modes that the sandbox's terminal begins with; false: the kernel's own. */
bool stdio_inner_modes(const struct stdio *s, struct termios *ret);
/* Takes the master of a pty (of the sandbox's own devpts), also on failure. */
int stdio_attach_master(struct stdio *s, int master_fd, struct err *err);
/* For engines without their own devpts: makes a pty here and attaches it; the caller passes the slave on and closes it. */
int stdio_open_pty(struct stdio *s, int *ret_slave, struct err *err);

void stdio_start(struct stdio *s);
size_t stdio_poll_fds(struct stdio *s, struct pollfd *out, size_t max);
int stdio_timeout_ms(const struct stdio *s); /* -1: none */
/* Whatever goes wrong with a stream ends that stream, as the command expects it; there is no error to report. */
void stdio_handle(struct stdio *s, const struct pollfd *fds, size_t n);

void stdio_resize(struct stdio *s);
void stdio_suspend(struct stdio *s); /* the terminal is as the user had it */
void stdio_resume(struct stdio *s);

void stdio_finish(struct stdio *s); /* nothing is left inside: no more input, forward what remains */
bool stdio_drained(const struct stdio *s);
/* Forwards until drained (0) or until wake_fd (may be -1) is readable (1). A stuck reader waits, as it does without us. */
int stdio_drain(struct stdio *s, int wake_fd);

/* stdio_relay.c, for stdio.c: flows between the user's descriptors and the sandbox's. */
int stdio_open_relays(struct stdio *s);    /* for the pipes; -ENOMEM */
int stdio_open_pty_flows(struct stdio *s); /* once the master is there */
void stdio_close_relays(struct stdio *s);
