/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket to a running bawn-gate. It never blocks: what the gate does not take at once waits here, and a gate that takes nothing for
 * LINK_QUEUE_MAX messages is not itself any more.
 */
#pragma once

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
