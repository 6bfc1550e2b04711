/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ClientHello of a TLS connection: enough of it to know which name is asked for. Hostile bytes in, struct out; no allocation.
 *
 * Records may cut the message anywhere (fragmentation), unknown and GREASE values are skipped, lengths must add up exactly. What is
 * not a TLS 1.0-1.3 ClientHello in TLS records is no ClientHello: SSLv2 hellos too.
 */
#pragma once

#include "base/macros.h"

enum { TLS_HELLO_MAX = 32 * 1024, TLS_SNI_MAX = 253, TLS_ALPN_MAX = 8, TLS_ALPN_NAME_MAX = 32 };

enum tls_hello_result {
    TLS_HELLO_OK,
    TLS_HELLO_MORE,   /* a beginning of one: read on */
    TLS_HELLO_NOT_TLS /* can never become one, or is longer than TLS_HELLO_MAX */
};

struct tls_hello {
    size_t len; /* bytes of the records that hold it */
    bool has_sni;
    char sni[TLS_SNI_MAX + 1]; /* as it came; no NUL in it (such a hello is NOT_TLS) */
    size_t sni_len;
    bool has_ech;  /* encrypted_client_hello; GREASE looks the same, so true for both */
    bool has_alpn; /* names longer than the maximum, and more than TLS_ALPN_MAX, are left out */
    size_t n_alpn;
    char alpn[TLS_ALPN_MAX][TLS_ALPN_NAME_MAX + 1];
};

enum tls_hello_result tls_hello_parse(const uint8_t *data, size_t len, struct tls_hello *ret);
/* True if these first bytes (one is enough) can be the beginning of TLS. */
bool tls_hello_could_be(const uint8_t *data, size_t len);

/* A fatal alert in a record of its own, as servers send it before any key is known. access_denied is 49. */
enum { TLS_ALERT_LEN = 7, TLS_ALERT_HANDSHAKE_FAILURE = 40, TLS_ALERT_ACCESS_DENIED = 49, TLS_ALERT_UNRECOGNIZED_NAME = 112 };
void tls_alert_write(uint8_t description, uint8_t out[static TLS_ALERT_LEN]);
