/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/tls/tls.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/gate.h"
#include "gateway/tls/tls_priv.h"
#include "os/fd.h"

/* Large enough that a bulk transfer needs few system calls; given back when it is empty (SSL_MODE_RELEASE_BUFFERS). */
enum { TLS_READ_AHEAD = 64 * 1024, TLS_ALPN_WIRE_MAX = 64, TLS_SERVER_TICKETS = 1, SESSIONS_MAX = 256 };

/* Sessions with servers, by name, so that the next connection needs no certificates --------------------------------- */

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

static int sessions_new(struct sessions **ret) {
    struct sessions *c = calloc(1, sizeof *c);

    if (!c)
        return -ENOMEM;
    *ret = c;
    return 0;
}

static void sessions_free(struct sessions *c) {
    for (size_t i = 0; c && i < SESSIONS_MAX; i++)
        forget(c, i);
    free(c);
}

/* Keeps what connections of ctx get; c must outlive them. */
static void sessions_watch(struct sessions *c, SSL_CTX *ctx) {
    SSL_CTX_set_app_data(ctx, c);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
}

static void sessions_use(struct sessions *c, SSL *ssl, const struct host *host) {
    size_t i = place_of(host->text);

    if (host->kind == HOST_NAME && c->v[i].host && str_eq(c->v[i].host, host->text))
        SSL_set_session(ssl, c->v[i].session);
}

/* ------------------------------------------------------------------------------------------------------------------- */

int tls_new(struct gate *g, const int *trust, size_t n_trust, struct tls **ret, struct err *err) {
    struct tls *t = n_trust <= TLS_TRUST_MAX ? calloc(1, sizeof *t) : NULL;

    if (!t || leaves_new(g, &t->leaves) < 0 || sessions_new(&t->sessions) < 0) {
        for (size_t i = 0; i < n_trust; i++)
            close(trust[i]);
        tls_free(t);
        return n_trust > TLS_TRUST_MAX ? err_set(err, -E2BIG, "more than %d trust bundles", TLS_TRUST_MAX) : err_oom(err);
    }
    t->gate = g;
    for (size_t i = 0; i < n_trust; i++)
        t->trust[i] = trust[i];
    t->n_trust = n_trust;
    *ret = t;
    return 0;
}

void tls_free(struct tls *t) {
    if (!t)
        return;
    for (size_t i = 0; i < t->n_trust; i++)
        closep(&t->trust[i]);
    if (t->leaves)
        leaves_free(t->leaves);
    SSL_CTX_free(t->client);
    trust_free(t->anchors);
    sessions_free(t->sessions);
    free(t);
}

void tls_library_init(void) {
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
}

/* What server and client sides have in common: versions, buffers, no renegotiation. NULL: no memory. */
static SSL_CTX *tls_context_new(const SSL_METHOD *method) {
    SSL_CTX *ctx = SSL_CTX_new(method);

    if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* A blocked write is repeated with a buffer that may have grown and moved meanwhile, but begins with the same bytes. */
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, TLS_READ_AHEAD);
    return ctx;
}

static int client_context(struct tls *t, struct err *err) {
    SSL_CTX *ctx;
    int r;

    if (t->client)
        return 0;
    tls_library_init();
    r = t->anchors ? 0 : trust_read(t->trust, t->n_trust, &t->anchors, err);
    if (r < 0)
        return r;
    ctx = tls_context_new(TLS_client_method());
    if (!ctx || trust_attach(t->anchors, SSL_CTX_get_cert_store(ctx)) < 0) {
        SSL_CTX_free(ctx);
        trust_free(TAKE_PTR(t->anchors));
        return err_oom(err);
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    sessions_watch(t->sessions, ctx);
    t->client = ctx;
    return 0;
}

/* No certificate for another name or address counts, however the server spells it; the subject's common name neither. */
static bool expect_host(SSL *ssl, const struct host *host) {
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (host->kind != HOST_NAME)
        return X509_VERIFY_PARAM_set1_ip(param, host->addr.b, host->addr.len) == 1;
    return X509_VERIFY_PARAM_set1_host(param, host->text, host->len) == 1 && SSL_set_tlsext_host_name(ssl, host->text) == 1;
}

static bool offer_alpn(SSL *ssl, const char *const *alpn, size_t n_alpn) {
    uint8_t wire[TLS_ALPN_WIRE_MAX];
    size_t len = 0;

    for (size_t i = 0; i < n_alpn; i++) {
        size_t n = strlen(alpn[i]);

        if (n == 0 || n > UINT8_MAX || len + 1 + n > sizeof wire)
            return false;
        wire[len++] = (uint8_t)n;
        memcpy(wire + len, alpn[i], n);
        len += n;
    }
    return !len || SSL_set_alpn_protos(ssl, wire, (unsigned)len) == 0;
}

SSL *tls_client(struct tls *t, const struct host *host, const char *const *alpn, size_t n_alpn, struct err *err) {
    SSL *ssl;

    if (client_context(t, err) < 0)
        return NULL;
    ssl = SSL_new(t->client);
    if (!ssl || !expect_host(ssl, host) || !offer_alpn(ssl, alpn, n_alpn)) {
        SSL_free(ssl);
        err_oom(err);
        return NULL;
    }
    sessions_use(t->sessions, ssl, host);
    SSL_set_connect_state(ssl);
    return ssl;
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *len, const unsigned char *in, unsigned in_len,
                       void *arg UNUSED) {
    const char *want = SSL_get_app_data(ssl);
    size_t n = want ? strlen(want) : 0;

    for (unsigned i = 0; n && i < in_len && in[i] < in_len - i; i += 1u + in[i])
        if (in[i] == n && memcmp(in + i + 1, want, n) == 0) {
            *out = in + i + 1;
            *len = in[i];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_NOACK;
}

SSL_CTX *tls_server_context(X509 *cert, EVP_PKEY *key) {
    SSL_CTX *ctx = tls_context_new(TLS_server_method());

    if (!ctx || SSL_CTX_use_certificate(ctx, cert) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1) {
        SSL_CTX_free(ctx);
        return NULL;
    }
    /*
     * Tickets only: sessions are kept by the clients. Each context has ticket keys of its own, so one host's do not open
     * another's.
     */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, TLS_SERVER_TICKETS);
    SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
    return ctx;
}

SSL *tls_server(SSL_CTX *ctx, const char *alpn) {
    SSL *ssl = SSL_new(ctx);

    if (!ssl || SSL_set_app_data(ssl, (void *)(uintptr_t)alpn) != 1) {
        SSL_free(ssl);
        return NULL;
    }
    SSL_set_accept_state(ssl);
    return ssl;
}
