/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second ClientHello. A TLS 1.3 server may answer the first one with a HelloRetryRequest; the client then says hello again, and
 * that hello is the one that counts, with a server name of its own. RFC 8446 says that both are the same, but who passes bytes on has to look.
 *
 * Fed with both directions of a connection whose first ClientHello is known, until the server's answer shows that there is no second one,
 * or the second one is there. Hostile bytes in; bounded; nothing is allocated unless there is a retry.
 */
#pragma once

#include "proto/tls_hello.h"

enum tls_retry_result {
    TLS_RETRY_MORE,  /* go on */
    TLS_RETRY_OVER,  /* there is no second hello; nothing needs to be looked at any more */
    TLS_RETRY_HELLO, /* *ret is the second one, whose last byte is in what was given; the same as OVER else */
    TLS_RETRY_BAD    /* a handshake that no client has, or a second hello that cannot be read */
};

enum { TLS_SERVER_HELLO_HEAD = 4 + 2 + 32 /* type, length, version, random */, TLS_RETRY_ALERTS_MAX = 8 };

struct tls_retry_record {
    uint8_t head[5];
    size_t n, left; /* of the head; of what follows it */
};

struct tls_retry {
    size_t skip; /* bytes of the client that are still the first hello */
    struct tls_retry_record client, server;
    uint8_t answer[TLS_SERVER_HELLO_HEAD];
    size_t n_answer, n_alerts;
    bool retry;                      /* the server has asked for a second hello */
    uint8_t *hello;                  /* its records, while they come; TLS_HELLO_MAX bytes */
    size_t n_hello, n_message, want; /* n_message: without the records' heads; want: 0 until it is known */
};

/* first: struct tls_hello.len of the first hello. */
void tls_retry_init(struct tls_retry *t, size_t first);
void tls_retry_done(struct tls_retry *t);
enum tls_retry_result tls_retry_client(struct tls_retry *t, const uint8_t *data, size_t len, struct tls_hello *ret);
enum tls_retry_result tls_retry_server(struct tls_retry *t, const uint8_t *data, size_t len);
