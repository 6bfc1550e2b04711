/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <openssl/ssl.h>

#include "base/str.h"
#include "gateway/tls/tls_priv.h"

enum { SESSIONS_MAX = 256 };

/*
 * One place per name, found by its hash; two names with the same place take turns. A session was made with a certificate that
 * was verified for exactly this name, which is why it may be used for no other. Addresses are left out: they have no name to
 * keep it by.
 */
struct sessions {
    struct {
        char *host;
        SSL_SESSION *session;
    } v[SESSIONS_MAX];
};

static size_t place_of(const char *host) {
    uint32_t h = 2166136261u;

    for (; *host; host++)
        h = (h ^ (uint8_t)*host) * 16777619u;
    return (h ^ h >> 16) % SESSIONS_MAX;
}

static void forget(struct sessions *c, size_t i) {
    SSL_SESSION_free(TAKE_PTR(c->v[i].session));
    free(TAKE_PTR(c->v[i].host));
}

static int on_new_session(SSL *ssl, SSL_SESSION *session) {
    struct sessions *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const char *host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    size_t i;

    if (!host || SSL_get_verify_result(ssl) != X509_V_OK)
        return 0;
    i = place_of(host);
    forget(c, i);
    c->v[i].host = strdup(host);
    if (!c->v[i].host)
        return 0;
    c->v[i].session = session;
    return 1;
}

int sessions_new(struct sessions **ret) {
    struct sessions *c = calloc(1, sizeof *c);

    if (!c)
        return -ENOMEM;
    *ret = c;
    return 0;
}

void sessions_free(struct sessions *c) {
    for (size_t i = 0; c && i < SESSIONS_MAX; i++)
        forget(c, i);
    free(c);
}

void sessions_watch(struct sessions *c, SSL_CTX *ctx) {
    SSL_CTX_set_app_data(ctx, c);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
}

void sessions_use(struct sessions *c, SSL *ssl, const struct host *host) {
    size_t i = place_of(host->text);

    if (host->kind == HOST_NAME && c->v[i].host && str_eq(c->v[i].host, host->text))
        SSL_set_session(ssl, c->v[i].session);
}
