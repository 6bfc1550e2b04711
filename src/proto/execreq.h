/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be executed in a persistent sandbox: made by a client (`bawn exec`, an SDK), carried by the exec socket to the keeper
 * (proto/execmsg.h) and, in the same bytes, by the control socket to bawn-init (INIT_MSG_EXEC). spec/exec-socket.md.
 *
 * The keeper trusts its client as the user, and bawn-init its keeper, but both decode with every bound checked.
 */
#pragma once

#include "base/macros.h"

struct buf;
struct termios;

enum { EXEC_REQUEST_MAX = 4 * 1024 * 1024, EXEC_STRINGS_MAX = 200000, EXEC_CC = 20 };

enum exec_flag {
    EXEC_TTY = 1,       /* a pty of its own, as controlling terminal of a session of its own */
    EXEC_TTY_STDIN = 2, /* which of 0, 1, 2 are its slave */
    EXEC_TTY_STDOUT = 4,
    EXEC_TTY_STDERR = 8,
    EXEC_STDIN = 16, /* which of 0, 1, 2 come as descriptors with the message, in this order; what neither has is /dev/null */
    EXEC_STDOUT = 32,
    EXEC_STDERR = 64,
    EXEC_BACKGROUND = 128, /* to the keeper: it holds the streams and keeps the output; the command goes on without its client */
    EXEC_TERMIOS = 256     /* the modes below are set before the command begins */
};
enum { EXEC_FLAGS_ALL = 511, EXEC_FLAGS_FDS = EXEC_STDIN | EXEC_STDOUT | EXEC_STDERR };
enum { EXEC_FLAGS_TTY = EXEC_TTY | EXEC_TTY_STDIN | EXEC_TTY_STDOUT | EXEC_TTY_STDERR };

struct exec_request {
    uint32_t flags;      /* set of enum exec_flag */
    uint32_t rows, cols; /* of the pty; 0: 24 and 80 */
    uint32_t modes[4];   /* EXEC_TERMIOS: c_iflag, c_oflag, c_cflag, c_lflag */
    uint8_t cc[EXEC_CC];
    uint64_t timeout_ms; /* the keeper ends it then (SIGTERM, a second later SIGKILL); 0: never */
    const char *cwd;     /* absolute, inside; "": the workspace */
    char **argv, **envp; /* NULL-terminated; envp: NAME=value, over the sandbox's own; "NAME" alone takes one away */
    size_t argc, envc;   /* argc >= 1 */
};

int exec_request_encode(const struct exec_request *r, struct buf *out);
/* Strings point into bytes, which must stay alive; the arrays are malloc'ed: exec_request_done(). -EBADMSG. */
int exec_request_decode(char *bytes, size_t len, struct exec_request *ret);
void exec_request_done(struct exec_request *r);
void exec_request_modes(struct exec_request *r, const struct termios *t); /* fills modes and cc, sets EXEC_TERMIOS */
