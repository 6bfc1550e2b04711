/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a sandbox that is kept, for `bawn exec` and for `bawn run` with keep_alive. On the hot path: nothing is
 * loaded or listed. */
#pragma once

#include "base/strv.h"
#include "supervisor/keep/exec_client.h"

struct err;

struct exec_args {
    const char *name, *cwd; /* cwd: absolute, inside; NULL: the workspace */
    struct strv env;        /* "NAME=VALUE" */
    uint64_t timeout_ms;    /* 0: none */
    bool background, start, tty, no_tty, json, closed[3];
    char **argv;
    size_t argc;
};
void exec_args_done(struct exec_args *a);

/* "NAME=VALUE", or "NAME": our own value, if there is one. */
int exec_args_env(struct exec_args *a, const char *text, struct err *err);
/* What tells programs about the terminal and the language is as where `bawn exec` was typed, not as where the sandbox was
 * started. */
int exec_args_terminal(struct exec_args *a, struct err *err);
/* The request, with strings of a. */
struct exec_request exec_args_request(const struct exec_args *a);

/* Connects, with `start` after starting it. */
int exec_args_connect(const struct exec_args *a, int *ret, struct err *err);
/* The command in the foreground. */
int exec_args_run(const struct exec_args *a, int sock, struct exec_result *ret, struct err *err);

/* A line for a sandbox that was stopped while the command ran; end: set of enum exec_end. */
void exec_say_stopped(const char *name, unsigned end);

/* All of `bawn exec`. Returns the exit status. */
int exec_run(struct exec_args *a, struct err *err);
