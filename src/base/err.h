/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: made where they happen, on the caller's stack, without allocation, so that they work after
 * clone() and can be sent through a socket as plain bytes.
 *
 *     int thing_open(const char *path, int *ret_fd, struct err *err) {
 *         int fd = open(path, O_CLOEXEC);
 *         if (fd < 0)
 *             return err_sys(err, -errno, "open '%s'", path);
 *
 * A message is a complete clause that a user can act on; callers put context in front of it with err_ctx().
 */
#pragma once

#include "base/macros.h"

enum {
    EXIT_SANDBOX = 125, /* Bawn itself cannot do what was asked */
    EXIT_NOEXEC = 126,  /* the command exists but cannot be executed */
    EXIT_NOTFOUND = 127,
    EXIT_USAGE_ERR = 64 /* bad option, bad configuration: nothing was started */
};

struct err {
    int code;   /* negative errno of the first failure */
    int status; /* the exit status this failure asks for; 0 means EXIT_SANDBOX */
    char msg[1000];
};

/* Each returns r, so that a failing function can say `return err_set(...)`. err may be NULL. */
int err_set(struct err *err, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);
int err_sys(struct err *err, int r, const char *fmt, ...) PRINTF_LIKE(3, 4); /* adds ": <strerror(-r)>" */
int err_usage(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);      /* -EINVAL, exit status 64 */
int err_oom(struct err *err);

/* Puts "context: " in front of a message that is already there; returns r. */
int err_ctx(struct err *err, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);

int err_exit_status(const struct err *err);
/* Of a command that could not be executed, as shells have it: EXIT_NOTFOUND or EXIT_NOEXEC. error: the errno of execve(2). */
int err_exec_status(int error);
