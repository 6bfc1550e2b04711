/* SPDX-License-Identifier: Apache-2.0 */
/* Starting our other programs (bawn-gate, bawn-broker, bawn-vault): born with exactly these descriptors and variables, and they die with us. */
#pragma once

#include <sys/types.h>

#include "proto/gatemsg.h"

struct cgroup;
struct err;

enum { HELPER_FDS_MAX = GATE_FDS_MAX /* the gate's are the most */ };

struct helper {
    const char *name;    /* beside us, see engine_helper() */
    const char *program; /* instead of it, for tests; NULL: none */
    char *const *argv, *const *envp;
    int fds[HELPER_FDS_MAX]; /* what becomes descriptor i, borrowed; -1: /dev/null */
    size_t n_fds;
    const struct cgroup *cgroup; /* the sandbox's, which pays for what it uses; NULL: it is ours. Borrowed */
    bool terminal; /* stays in our process group, so that it may read from the terminal and Ctrl-C reaches it, too */
};

int helper_start(const struct helper *h, pid_t *ret_pid, struct err *err);
/* Until it ends: process_exit_status(). */
int helper_wait(const char *name, pid_t pid, int *ret_status, struct err *err);
/* For a new process that is about to become another program. */
int helper_default_signals(void);
