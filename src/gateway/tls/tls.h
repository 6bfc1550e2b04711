/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for inspected connections: the host's trust store, leaf certificates from the broker, and handshakes. One EC key is
 * made when it is first needed; the broker signs a certificate for it per host and never sees it, and the gate never sees the
 * CA's key.
 */
#pragma once

#include <openssl/ssl.h>

#include "policy/host/host.h"

struct gate;
struct tls;

/* trust: descriptors of PEM bundles, opened before the gate was locked in; read when first needed. Takes them. */
int tls_new(struct gate *g, const int *trust, size_t n_trust, struct tls **ret, struct err *err);
void tls_free(struct tls *t);

/*
 * For connections to servers: verifies for host (name or address), offers the protocols of alpn (none: NULL, 0). NULL: err
 * says why.
 */
SSL *tls_client(struct tls *t, const struct host *host, const char *const *alpn, size_t n_alpn, struct err *err);

/* A certificate for host: fn is called once, never before this returns, with a context to make server sides from, or NULL. */
struct tls_leaf;
typedef void tls_leaf_fn(void *arg, SSL_CTX *ctx);
/* NULL: no memory, or too many wait. */
struct tls_leaf *tls_leaf_get(struct tls *t, const struct host *host, tls_leaf_fn *fn, void *arg);
void tls_leaf_cancel(struct tls_leaf *q);

/* A context for the server's side that shows this certificate. NULL: no memory, or the key is not that of the certificate. */
SSL_CTX *tls_server_context(X509 *cert, EVP_PKEY *key);
/* A server's side that chooses the protocol alpn (a constant; NULL: none) if the client offers it. NULL: no memory. */
SSL *tls_server(SSL_CTX *ctx, const char *alpn);
