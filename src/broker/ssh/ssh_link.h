/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the user's ssh-agent: one message out, one back, never waiting. The agent may hang, or want its human
 * first. */
#pragma once

#include "base/buf.h"
#include "proto/ssh_agent.h"

enum { SSH_LINK_MAX = SSH_AGENT_MESSAGE_MAX + 4 };

struct ssh_link {
    int fd; /* -1: none */
    struct buf out;
    size_t sent;
    uint8_t *in; /* SSH_LINK_MAX bytes, once there is a connection */
    size_t in_len;
};

int ssh_link_init(struct ssh_link *l, int fd); /* takes fd, also on failure; -ENOMEM */
void ssh_link_done(struct ssh_link *l);        /* zeroed memory with fd -1 is fine */
/* A message without its length. The last one's answer has been taken. -ENOMEM */
int ssh_link_send(struct ssh_link *l, uint8_t type, struct ssh_bytes payload);
short ssh_link_events(const struct ssh_link *l);
/* Does what can be done. 1: an answer is here, without its length in *ret, until the next call; 0: not yet; -errno: it is gone,
 * or spoke without being asked. */
int ssh_link_turn(struct ssh_link *l, struct ssh_bytes *ret);
