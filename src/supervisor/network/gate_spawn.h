/* SPDX-License-Identifier: Apache-2.0 */
/* Starting bawn-gate: born with the descriptors of proto/gatemsg.h and nothing else of ours. */
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "proto/gatemsg.h"

struct cgroup;
struct err;

struct gate_spawn {
    const char *program;   /* NULL: bawn-gate beside us (engine_helper()); for tests */
    int fds[GATE_FDS_MAX]; /* what becomes descriptor i, borrowed; -1: /dev/null. The first three and CONTROL are not looked at */
    size_t n_fds;
    const struct cgroup *cgroup; /* struct helper's */
    const char *trust;           /* the user's SSL_CERT_FILE: what the host trusts; NULL: the system's */
};

struct gate_child {
    pid_t pid;
    int sock;     /* our end of the control socket */
    int messages; /* what it writes to stderr; non-blocking on both ends */
};
int gate_spawn(const struct gate_spawn *s, struct gate_child *ret, struct err *err);
