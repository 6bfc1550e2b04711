/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /bin/sh of a persistent sandbox, called as if it were the host's (`bawn-sh`). It is the own sandbox of the nearest folder, from the current one
 * upwards, that has one; none is ever made. The command runs in the same folder inside.
 */
#pragma once

#include "ops/sandbox/exec_run.h"

struct shell_call {
    char *const *argv; /* argv[0] is our own name; "-..." asks for a login shell */
    size_t argc;
    const char *sandbox; /* NULL: the project's */
    bool closed[3];      /* from stdio_reserve() */
    const struct notice *notice;
    char name[BOX_ID_MAX + 1]; /* out: of the sandbox */
};
/* Starts the sandbox if it does not run. */
int exec_sh(struct shell_call *q, struct exec_result *ret, struct err *err);
