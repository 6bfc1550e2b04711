/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes for splicing, used again: making one and giving it its size costs more than a small transfer. */
#pragma once

#include "gateway/flow/relay.h"

struct pipe_pair {
    int in, out; /* bytes go into `in` */
    struct pipe_pair *next;
};

/* An empty one, or NULL if all are in use. */
struct pipe_pair *pipes_take(struct pipes *p);
/* Back; with bytes in it: away. */
void pipes_give(struct pipes *p, struct pipe_pair *pair, bool empty);

/* Shared by all relays: between two calls nothing is in it. */
uint8_t *pipes_buffer(struct pipes *p);
