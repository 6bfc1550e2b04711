/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answering requests (proto/brokermsg.h) until the gate or the supervisor closes. Everything in a request is hostile: bawn-gate may have
 * been taken over. What it can get here is a certificate for its own sandbox, and values for hosts that policy allows; never the key.
 */
#pragma once

#include "broker/broker.h"

struct err;

/* A message with requests, which is zeroed. 0: they are answered (broker_flush()) or will be. -EBADMSG: close the socket. */
int serve_requests(struct broker *b, void *bytes, size_t len);
/* One message of the supervisor. Takes fd, which is -1 if none came. -EBADMSG, or a first configuration that cannot be used. */
int serve_message(struct broker *b, const struct broker_msg *m, size_t len, int fd, struct err *err);
/* Waits for what comes next and deals with it. 0, or -errno; b->over when the gate or the supervisor is gone. */
int serve_round(struct broker *b, struct err *err);
/* 0 when the other side is gone. */
int serve_loop(struct broker *b, struct err *err);
