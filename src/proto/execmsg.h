/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exec socket of a persistent sandbox: SOCK_SEQPACKET, $XDG_RUNTIME_DIR/bawn/box/NAME.sock (0600, folder 0700; without that variable
 * $XDG_STATE_HOME/bawn/run/box/). A client has our uid or is root. One connection carries one of these conversations:
 *
 *     EXEC (fds)  ->  STARTED (fd: the pty's master, with EXEC_TTY and without EXEC_BACKGROUND), STOPPED*, EXITED  | FAILED
 *                     meanwhile SIGNAL from the client. When it hangs up, its command is ended (SIGHUP, SIGCONT, a second later SIGKILL)
 *     EXEC with EXEC_BACKGROUND -> STARTED; then as after ATTACH, or the client hangs up and the command goes on
 *     ATTACH job  ->  STARTED, OUTPUT*, EXITED | FAILED; meanwhile INPUT, SIZE, SIGNAL from the client. Hanging up detaches
 *     OPEN path   ->  OPENED (fd) | FAILED
 *     CONNECT port -> OPENED (fd: a TCP connection) | FAILED
 *
 * Every message is a struct exec_msg with `len` bytes behind it. Of a body that is longer than EXEC_INLINE_MAX only a descriptor is
 * sent, a memfd, as the first of the descriptors (flag EXEC_MSG_MEMFD); execmsg_send() and execmsg_recv() hide that.
 */
#pragma once

#include "base/buf.h"

enum { EXEC_PROTOCOL = 1, EXEC_INLINE_MAX = 64 * 1024, EXEC_OUTPUT_MAX = 16 * 1024, EXEC_FDS_MAX = 3 };

enum exec_msg_type {
    EXEC_MSG_EXEC = 1, /* to the keeper: value EXEC_PROTOCOL; body: an encoded struct exec_request */
    EXEC_MSG_ATTACH,   /* to: value: job, 0: the latest in the background; extra: the most bytes of old output to send */
    EXEC_MSG_SIGNAL,   /* to: value: signal; extra 1: to the process group, 0: to the process */
    EXEC_MSG_INPUT,    /* to: body, at most EXEC_INLINE_MAX; empty: the end of input (not for a pty) */
    EXEC_MSG_SIZE,     /* to: value: rows, extra: columns */
    EXEC_MSG_OPEN,     /* to: value: enum exec_open; body: an absolute path inside, no NUL */
    EXEC_MSG_STARTED,  /* from: value: job, extra: pid inside */
    EXEC_MSG_STOPPED,  /* from: value: the signal that stopped it */
    EXEC_MSG_OUTPUT,   /* from: value 1 or 2: the stream; body */
    EXEC_MSG_EXITED,   /* from: value: wait status; extra: set of enum exec_end */
    EXEC_MSG_FAILED,   /* from: value: errno; body: what, for people. Nothing was started */
    EXEC_MSG_OPENED,   /* from: with a descriptor */
    EXEC_MSG_CONNECT   /* to: value: a TCP port on the inside's loopback. Answered by OPENED with the connection, or FAILED */
};

enum exec_end {
    EXEC_END_NOEXEC = 1,   /* execve failed: value is its errno */
    EXEC_END_TIMEOUT = 2,  /* its time was over */
    EXEC_END_STOP = 4,     /* the sandbox was stopped, or its PID 1 killed */
    EXEC_END_MEMORY = 8,   /* the limit on memory killed it */
    EXEC_END_DISK = 16,    /* the limit on disk space ended the sandbox */
    EXEC_END_LANDED = 32,  /* a file that was open for writing inside was put into a protected place on the host */
    EXEC_END_PRIVATE = 64, /* it failed, and /tmp is full; or /tmp, on disk, has reached its size, which ended the sandbox */
    EXEC_END_PIDS = 128    /* no more processes could be started */
};

/* No symbolic link is followed, in no part of the path. */
enum exec_open {
    EXEC_OPEN_READ = 1, /* a regular file or a folder, O_RDONLY */
    EXEC_OPEN_FOLDER    /* a folder; what is made below it is the caller's business */
};

enum exec_msg_flag { EXEC_MSG_MEMFD = 1 };

struct exec_msg {
    uint32_t type; /* enum exec_msg_type */
    int32_t value, extra;
    uint32_t flags; /* enum exec_msg_flag */
    uint32_t len;   /* of the body */
};

/* body may be NULL if m->len is 0. Sets flags itself. 0 or -errno. Does not wait with MSG_DONTWAIT set on a non-blocking socket: -EAGAIN. */
int execmsg_send(int sock, struct exec_msg *m, const void *body, const int *fds, size_t n_fds);
/* The body is appended to *body (its ceiling decides what is too long: -EMSGSIZE). n_fds as for sock_recv(). 1: a message, 0: the end, -errno. */
int execmsg_recv(int sock, struct exec_msg *m, struct buf *body, int *ret_fds, size_t *n_fds);
