/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A unix socket inside the sandbox that asks and answers: the ssh-agent (agentd.c), names of credentials (credd.c). Clients
 * come in any number, each has one question open at a time and room for one, and a client that does not read its answer is not read
 * from.
 */
#pragma once

#include "base/macros.h"

struct gate;
struct err;
struct inlet;
struct inlet_client;

enum { INLET_CLIENTS_MAX = 128 }; /* more of them wait until one goes */

struct inlet_ops {
    size_t message_max; /* bytes with framing; the client that sends more is dropped */
    size_t state_size;  /* of what inlet_state() returns; zeroed at first */
    /* How many bytes the first message takes; 0: more have to come; negative: drop the client. */
    long (*frame)(const uint8_t *data, size_t len);
    /* inlet_answer() follows, from within or later. */
    void (*message)(struct inlet_client *c, const uint8_t *data, size_t len);
    /* The client goes: forget it, and free what the state holds. May be NULL. */
    void (*gone)(struct inlet_client *c);
};

int inlet_new(struct gate *g, int fd /* taken */, const struct inlet_ops *ops, void *arg, struct inlet **ret, struct err *err);
void inlet_free(struct inlet *i); /* NULL is fine */

void *inlet_state(struct inlet_client *c);
void *inlet_arg(const struct inlet_client *c);
struct gate *inlet_gate(const struct inlet_client *c);
/* Once for each message. The client may be gone afterwards, if it was not called from within ops.message(). */
void inlet_answer(struct inlet_client *c, const void *data, size_t len);
