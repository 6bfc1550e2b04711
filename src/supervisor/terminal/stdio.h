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
 *         n = stdio_poll_fds(&s, pfds);  poll(..., min(own timeout, stdio_timeout_ms(&s)))
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
#include <sys/types.h>
#include <termios.h>

#include "proto/termfilter.h"
#include "supervisor/terminal/stdio_prompt.h"

struct err;

/* -- what the sandbox gets as descriptors 0, 1 and 2: decisions, no side effects but fstat() ------------------------------ */

enum stdio_class {
    STDIO_CLOSED,
    STDIO_TERMINAL,
    STDIO_PIPE,
    STDIO_NULLDEV,
    STDIO_FILE, /* could be reopened for writing, or truncated, through /proc/self/fd */
    STDIO_SOCKET,
    STDIO_DEVICE,    /* every other device, and anonymous inodes */
    STDIO_DIRECTORY, /* openat() through it leads out of the sandbox (ATTACKS 19) */
    STDIO_PATH,      /* O_PATH: the same for a file */
    STDIO_CLASS_COUNT
};

enum stdio_way {
    STDIO_WAY_NULL,   /* /dev/null */
    STDIO_WAY_DIRECT, /* the very descriptor: no copy, and SIGPIPE, offsets and flags are as without a sandbox */
    STDIO_WAY_RELAY,  /* a pipe, copied by the supervisor */
    STDIO_WAY_PTY     /* slave of the sandbox's own terminal */
};

enum stdio_term {
    STDIO_TERM_NONE,   /* the real terminal, if there is one, only receives bytes */
    STDIO_TERM_RAW,    /* stdin and the screen are the user's terminal: every key goes inside */
    STDIO_TERM_COOKED, /* another program of the pipeline may use the terminal: it keeps editing lines itself */
    STDIO_TERM_OUTPUT  /* only output goes to a terminal */
};

struct stdio_plan {
    enum stdio_way way[3];
    bool pty;    /* some way is STDIO_WAY_PTY */
    bool merged; /* 1 and 2 are relayed to the same object: one pipe, so that their order stays */
    enum stdio_term term;
    int screen; /* which of 0, 1, 2 gets what the pty prints; -1 without a pty */
};

struct stdio_wish {
    bool force_tty; /* a pty for all three, even without a terminal */
    bool no_tty;    /* pipes, even with a terminal (which is never handed in itself) */
};

enum stdio_class stdio_classify(int fd);
bool stdio_same_object(int a, int b);
/* same: 1 and 2 are the same object. Fails for a directory or O_PATH descriptor. */
int stdio_plan(const enum stdio_class cls[3], bool same, const struct stdio_wish *wish, struct stdio_plan *ret, struct err *err);

/* -- flows --------------------------------------------------------------------------------------------------------------- */

/*
 * One direction of a relay: reads from src, writes to dst, and never blocks, so that its caller stays able to
 * handle signals and timeouts however stuck a reader is. A flow reads only while its buffer is empty: a reader that does
 * not read thereby stops the writer, and memory stays at one buffer.
 *
 * The user's descriptors cannot be made non-blocking (their descriptions are shared with the shell and with other
 * programs of a pipeline), so each end says how it is spoken to:
 */
enum stdio_io {
    STDIO_IO_NONBLOCK, /* our own description, O_NONBLOCK */
    STDIO_IO_SOCKET,   /* MSG_DONTWAIT; a plain read drops SCM_RIGHTS, so no descriptor crosses */
    STDIO_IO_POLLED,   /* blocking: asked with poll() before each call, at most PIPE_BUF bytes per write */
};

enum { STDIO_FLOW_BUF = 64 * 1024, STDIO_FLOW_READ = 16 * 1024 };

/* Rewrites n bytes of in to out (at most STDIO_FLOW_BUF) and returns how many; final: the input has ended. */
typedef size_t stdio_rewrite(void *ctx, const uint8_t *in, size_t n, bool final, uint8_t *out);

struct stdio_flow {
    bool active;
    int src, dst; /* borrowed */
    enum stdio_io src_io, dst_io;
    bool src_tty;           /* reading 0 bytes there is an end that the user typed; more may follow */
    bool src_paused;        /* do not read for now (background job, hung-up pty) */
    bool src_ended;         /* nothing more will be read; the rest of the buffer is still written */
    stdio_rewrite *rewrite; /* NULL: bytes pass unchanged */
    void *rewrite_ctx;
    uint8_t *buf;
    size_t off, len; /* bytes [off, off + len) of buf wait for dst */
    uint64_t bytes;  /* read so far */
    int failed;      /* -errno of dst, if it was another one than -EPIPE */
};

int stdio_flow_open(struct stdio_flow *f); /* allocates; -ENOMEM */
void stdio_flow_close(struct stdio_flow *f);
/* Appends up to 2 entries to out; returns how many. */
size_t stdio_flow_poll(const struct stdio_flow *f, struct pollfd *out);

/*
 * Moves what can be moved. 1: there may be more; 0: it must wait; -EPIPE: dst will take no more (src is left as it is);
 * -ENODATA: src has ended and everything is written; -EIO: src is a pty without any process on the other side.
 */
int stdio_flow_run(struct stdio_flow *f);

/* One read(2) that does not block: -EAGAIN; 0 at the end. */
ssize_t stdio_flow_read(int fd, enum stdio_io io, void *buf, size_t n);

/* -- the streams --------------------------------------------------------------------------------------------------------- */

enum { STDIO_POLL_MAX = 6 };

struct stdio_opts {
    int fd[3]; /* the user's descriptors, normally 0 1 2; -1: was closed */
    struct stdio_wish wish;
};

struct stdio_modes {
    struct termios user; /* of the user's terminal, as found */
    bool have_user, raw_on;
    bool set;      /* the pty came with modes of its own, and the command may have changed them since */
    bool external; /* the pty stands for one on another kernel, which processes what is typed (EXTPROC) */
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
    bool impatient; /* set by the caller when it is asked to end: then a stuck reader is not waited for at the end */
    struct stdio_flow in, keys, out, err, screen;
    struct termfilter filters[3];   /* by stream that they write to */
    int lost[3];                    /* -errno of a file or device that took no more of stream i; 0: none */
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

void stdio_start(struct stdio *s);
size_t stdio_poll_fds(struct stdio *s, struct pollfd *out); /* at most STDIO_POLL_MAX */
int stdio_timeout_ms(const struct stdio *s);                /* -1: none */
/* Whatever goes wrong with a stream ends that stream, as the command expects it; see stdio_status(). */
void stdio_handle(struct stdio *s, const struct pollfd *fds, size_t n);

void stdio_resize(struct stdio *s);
void stdio_suspend(struct stdio *s); /* the terminal is as the user had it */
void stdio_resume(struct stdio *s);

void stdio_finish(struct stdio *s); /* nothing is left inside: no more input, forward what remains */
bool stdio_drained(const struct stdio *s);
/* At the end: the command wrote to a pipe and may not know that a full disk took no more. Says so, and makes a failure (125) of its success. */
int stdio_status(const struct stdio *s, int status);
/* Forwards until drained (0) or until wake_fd (may be -1) is readable (1). A stuck reader is waited for, as without us, unless
 * the user is impatient. */
int stdio_drain(struct stdio *s, int wake_fd);

/* stdio_relay.c, for stdio.c: flows between the user's descriptors and the sandbox's. */
int stdio_open_relays(struct stdio *s);    /* for the pipes; -ENOMEM */
int stdio_open_pty_flows(struct stdio *s); /* once the master is there */
void stdio_close_relays(struct stdio *s);
