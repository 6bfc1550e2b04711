/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket to a running bawn-gate. It never blocks: what the gate does not take at once waits here, and a gate that takes nothing for
 * LINK_QUEUE_MAX messages is not itself any more.
 */
#pragma once

#include <sys/types.h>

#include "proto/gatemsg.h"

enum { LINK_QUEUE_MAX = 4096 };

struct link_item {
    uint32_t type, id;
    int32_t value;
    int fd; /* -1: none */
};

struct gate_link {
    int sock; /* -1: no gate */
    struct link_item *queue;
    size_t head, len;
};
#define GATE_LINK_INIT \
    { .sock = -1 }

/* Takes sock. */
int gate_link_open(struct gate_link *l, int sock);
void gate_link_close(struct gate_link *l);
short gate_link_events(const struct gate_link *l); /* for poll() */
/* Takes fd (-1: none), also on failure. Negative: the gate has to be given up. */
int gate_link_send(struct gate_link *l, enum gate_msg_type type, uint32_t id, int32_t value, int fd);
int gate_link_flush(struct gate_link *l);
/* One message that has passed gatemsg_sane(). 1: there is one; 0: none now; negative: the gate is gone, or does not keep to the protocol. */
int gate_link_recv(struct gate_link *l, struct gate_msg *ret);

/* Starting bawn-gate: born with the descriptors of proto/gatemsg.h and nothing else of ours. */
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
