/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands in a persistent sandbox, with our streams or in the background: `bawn exec`, `shell`, `attach`, and `bawn run` with keep_alive.
 * On the hot path: nothing is loaded or listed.
 */
#pragma once

#include "base/strv.h"
#include "registry/registry.h"
#include "supervisor/keep/exec_client.h"

struct err;
struct notice;

struct exec_args {
    const char *name, *cwd; /* cwd: absolute, inside; NULL: the workspace */
    struct strv env;        /* "NAME=VALUE" */
    uint64_t timeout_ms;    /* 0: none */
    bool background, start, tty, no_tty, closed[3];
    char **argv;
    size_t argc;
    const struct notice *notice;
};
void exec_args_done(struct exec_args *a);

/* "NAME=VALUE", or "NAME": our own value, if there is one. */
int exec_args_env(struct exec_args *a, const char *text, struct err *err);
/* Adds the variables that describe our terminal and language: they are those of where the command was typed, not of where the sandbox
 * was started. */
int exec_args_terminal(struct exec_args *a, struct err *err);

/* `bawn exec`. In the background only the job's number is in the result. Starts a stopped sandbox if `start`. */
int exec_run(struct exec_args *a, struct exec_result *ret, struct err *err);
/* The command in the foreground, through a socket of exec_connect(). */
int exec_args_run(const struct exec_args *a, int sock, struct exec_result *ret, struct err *err);
/* Says that the sandbox was stopped while the command ran, if it was. end: set of enum exec_end. */
void exec_say_stopped(const struct notice *n, const char *name, unsigned end);

struct attach_args {
    const char *name, *dir;              /* as in struct sandbox_pick_opts */
    uint64_t job;                        /* 0: the latest in the background */
    const char *detach_keys;             /* as exec_detach_keys() has them; NULL: the usual ones */
    bool read_only, no_tty;              /* no_tty: a shell gets pipes */
    const struct notice *notice, *alert; /* alert: that it was stopped, and why */
};
struct attach_result {
    char sandbox[BOX_ID_MAX + 1];
    struct exec_result exec;
    bool detached; /* the user left; the job goes on */
};
/* Our terminal, or streams, and a job in the background. */
int exec_attach_job(const struct attach_args *a, struct attach_result *ret, struct err *err);
/* A shell in the background, and our terminal. Starts a stopped sandbox, and makes one that is not there. name, dir,
 * detach_keys and notice of `a` count, of `e` the variables and the folder. */
int exec_shell(const struct attach_args *a, struct exec_args *e, struct attach_result *ret, struct err *err);
