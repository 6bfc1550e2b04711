/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a judged name to a connected socket: lookup, verdict on each address, then the allowed ones in turn, each getting a
 * head start of DIAL_STAGGER_MS (RFC 8305, simplified). An address that was not judged is never dialled.
 *
 * Where the host has a proxy (http_proxy, https_proxy, no_proxy) that is dialled instead, and asked to CONNECT. The name then
 * is looked up by the proxy: where it leads cannot be checked. Addresses that a client names are judged as ever.
 */
#pragma once

#include <sys/socket.h>

#include "gateway/gate.h"

enum { DIAL_STAGGER_MS = 250, DIAL_TIMEOUT_MS = 20 * 1000, DIAL_TEXT_MAX = 300 };

enum dial_end {
    DIAL_OK,
    DIAL_DENIED, /* no address may be dialled; verdict: that on the first one */
    DIAL_ASK,    /* a human has to decide about the address; verdict */
    DIAL_NO_ADDRESS,
    DIAL_FAILED /* there are addresses, but no connection */
};

struct dial_opts {
    const struct host *host; /* copied */
    uint16_t port;
    bool is_tls;
    bool plain_http;  /* for the choice of the proxy */
    bool approved;    /* a human said yes: ask counts as allow */
    bool address_too; /* ... also where a rule asks about the address */
};

struct dial_result {
    enum dial_end how;
    int fd;           /* DIAL_OK: the callee's */
    struct addr addr; /* DIAL_OK: where it leads; len 0: a proxy knows */
    struct policy_verdict verdict;
    char text[DIAL_TEXT_MAX]; /* NO_ADDRESS, FAILED: what happened */
};

struct dial;
typedef void dial_fn(void *arg, const struct dial_result *res);

/* fn is called once, perhaps before this returns; *ret is set before and must not be used in or after it. */
int dial_start(struct gate *g, const struct dial_opts *opts, dial_fn *fn, void *arg, struct dial **ret);
void dial_cancel(struct dial *d);

/* policy_judge() that knows which addresses are this machine's own: the one that is asked about is tried out. */
void gate_judge(struct gate *g, const struct policy_request *given, struct policy_verdict *ret);

/* Addresses as the kernel has them. */
socklen_t sockaddr_make(const struct addr *a, uint16_t port, struct sockaddr_storage *ret);
bool sockaddr_read(const struct sockaddr_storage *from, struct addr *ret, uint16_t *ret_port); /* false: no internet address */
