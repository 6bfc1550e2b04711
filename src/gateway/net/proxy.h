/* SPDX-License-Identifier: Apache-2.0 */
/* The host's own proxy (N10). Its credentials stay in the gate. */
#pragma once

#include "policy/gateconf.h"

enum { PROXY_AUTH_MAX = 512, PROXY_ANSWER_MAX = 16 * 1024 };

struct proxy {
    struct host host;
    uint16_t port;
    char auth[PROXY_AUTH_MAX]; /* "user:password"; "" if none */
};

/* 1: use *ret; 0: connect directly; -EINVAL: err says what is wrong with the host's setting. */
int proxy_choose(const struct gate_config *c, const struct host *host, bool plain_http, struct proxy *ret, struct err *err);
/* "CONNECT ..." with all its headers. */
void proxy_request(const struct proxy *p, const struct host *host, uint16_t port, struct buf *b);
/* The answer's head, peeked: its length, once it is whole and says yes. 0: more has to come. -EPROTO, -EACCES: *ret_status is
 * the proxy's (0: not HTTP). */
long proxy_answer(const uint8_t *data, size_t len, int *ret_status);
