/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a keeper's exec socket: what `bawn exec`, `shell`, `attach`, `cp` and `bawn run` with keep_alive use. */
#pragma once

#include "proto/execreq.h"

struct box;
struct err;

/*
 * ".../bawn/box/NAME.sock"; an id is as good as a name. Nothing else is read on the way; only if there is no answer does the
 * registry say why: -ENOENT no such sandbox, -ENOTCONN not running (stopped, or its supervisor was killed), -EAGAIN it is
 * just starting or stopping, -EPERM another user's.
 */
int exec_connect(char *const *environ_, const char *home, const char *name, int *ret, struct err *err);
/* The same words for a caller that has the sandbox's folder open; it is not running: -ENOTCONN, -EAGAIN, or -EIO if its
 * supervisor is stuck. */
int exec_not_running(const struct box *b, struct err *err);

struct exec_result {
    int status; /* what to exit with */
    int signal; /* 0: none */
    bool started;
    int exec_errno; /* it could not be executed: why */
    unsigned end;   /* set of enum exec_end */
    int job;
    uint64_t duration_us;
};

struct exec_options {
    struct exec_request request; /* flags, size, modes and descriptors are filled in here from the streams */
    const char *sandbox;         /* its name, for messages */
    bool force_tty, no_tty, closed[3];
};

/*
 * Runs a command with our own standard streams, exactly as `bawn run` treats them (supervisor/terminal/stdio.h): pipes pass directly,
 * files and sockets are relayed, a terminal becomes a pty inside. Signals are passed on, job control works, the terminal is
 * left as found.
 */
int exec_foreground(int sock, const struct exec_options *opt, struct exec_result *ret, struct err *err);
/* Starts it in the background; *ret_job. */
int exec_background(int sock, const struct exec_request *r, int *ret_job, struct err *err);
/* Our terminal, or streams, and a job in the background, until it ends or the user detaches (keys: default ctrl-p ctrl-q;
 * "" none). history: bytes of old output shown first. *ret_detached. */
struct attach_options {
    const char *sandbox;              /* its name, for messages */
    int job;                          /* 0: the latest */
    const struct exec_request *start; /* not NULL: starts this first; with EXEC_TTY, size and modes are our terminal's */
    bool tty; /* the job has a pty: every key goes inside; else lines, and ctrl-c is a signal. start: from its flags */
    const char *detach_keys; /* as exec_detach_keys() has them; NULL: the usual ones */
    size_t history;
    bool read_only; /* no input, no signals */
};
enum { EXEC_KEYS_MAX = 16 };
/* "ctrl-p,ctrl-q" or "ctrl-]" or "a,b" as bytes; "": none. Exit status 64 for anything else. */
int exec_detach_keys(const char *text, char ret[static EXEC_KEYS_MAX + 1], struct err *err);
int exec_attach(int sock, const struct attach_options *opt, struct exec_result *ret, bool *ret_detached, struct err *err);
/* A file or folder inside (enum exec_open). */
int exec_open(int sock, const char *path, int how, int *ret_fd, struct err *err);
/* A connection to a server inside, on its loopback; it does not block. */
int exec_inside(int sock, int port, int *ret_fd, struct err *err);
