/* SPDX-License-Identifier: Apache-2.0 */
/* What the sandbox gets as descriptors 0, 1 and 2: pure decisions, no side effects but fstat(). */
#pragma once

#include "base/macros.h"

struct err;

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
