/* SPDX-License-Identifier: Apache-2.0 */
/* Between the parts of dnsd. */
#pragma once

#include <uv.h>

#include "gateway/net/dnsd.h"
#include "proto/dns.h"

struct dnsd_conn;

struct dnsd {
    struct gate *gate;
    struct dnsd_udp *udp[2]; /* IPv4, IPv6 */
    bool ipv6;
    struct dnsd_conn *conns; /* list */
    size_t n_conns;
};

/* dnsd_answer() for this gate, with the log written. */
size_t dnsd_reply(struct dnsd *d, const uint8_t *query, size_t len, uint8_t *out, size_t size);

void dnsd_conn_close(struct dnsd_conn *c); /* at once; the memory goes when the loop has let go of it */
