/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's end of the socket to bawn-broker (proto/brokermsg.h): requests by id, answers in any order. The socket is asked
 * for (GATE_MSG_WANT_BROKER) when it is first needed, and again after it was lost: calls that waited then fail with -ECONNRESET,
 * later ones ask again. An answer's bytes are zeroed when fn returns.
 */
#pragma once

#include "proto/brokermsg.h"

struct gate;
struct brokerlink;
struct broker_call;

enum { BROKERLINK_CALLS_MAX = 4096, BROKERLINK_TIMEOUT_MS = 60 * 1000 }; /* longer than a store may take */

typedef void broker_fn(void *arg, int status, const uint8_t *data, size_t len);

int brokerlink_new(struct gate *g, struct brokerlink **ret);
void brokerlink_free(struct brokerlink *b);           /* no fn is called any more */
void brokerlink_socket(struct brokerlink *b, int fd); /* taken; -1: there is none, all calls fail */
/* Fills in id and len. fn is called once, from the loop, never before this returns. NULL: too many, or too long. */
struct broker_call *broker_call(struct brokerlink *b, struct broker_request *req, const void *data, size_t len, broker_fn *fn,
                                void *arg);
void broker_call_cancel(struct broker_call *c);
