/* SPDX-License-Identifier: Apache-2.0 */
/* The handshakes of an inspected connection. */
#include <errno.h>
#include <sys/socket.h>

#include "base/str.h"
#include "gateway/tls/inspect_priv.h"

static const char *const protocols[] = {"h2", "http/1.1"};
enum { PROTOCOL_H2, PROTOCOL_H1 };

static void set_why(struct inspect *i, const char *who, const char *why) {
    snprintf(i->why, sizeof i->why, "%s%.180s", who, why);
}

void inspect_trouble(struct inspect *i, enum inspect_end how, const char *why) {
    i->has_trouble = true;
    i->trouble = how;
    set_why(i, "", why);
    inspect_close_side(inspect_server(i));
    i->tls.alpn = i->tls.client_likes;
    inspect_enter(i, STATE_LEAF);
}

/* Which of the client's protocols can be offered to the server, in the client's order. */
static size_t common_protocols(const struct tls_hello *hello, const char *ret[static ARRAY_LEN(protocols)]) {
    size_t n = 0;

    for (size_t i = 0; i < hello->n_alpn; i++)
        for (size_t k = 0; k < ARRAY_LEN(protocols); k++)
            if (n < ARRAY_LEN(protocols) && str_eq(hello->alpn[i], protocols[k]) && !(n && ret[0] == protocols[k]))
                ret[n++] = protocols[k];
    if (!n)
        ret[n++] = protocols[PROTOCOL_H1];
    return n;
}

static void on_leaf(void *arg, SSL_CTX *ctx) {
    struct inspect *i = arg;

    i->tls.leaf = NULL;
    i->tls.no_leaf = !ctx || SSL_CTX_up_ref(ctx) != 1;
    i->tls.ctx = i->tls.no_leaf ? NULL : ctx;
    inspect_run(i);
}

/* The leaf is asked for at once: it is needed for a refusal, too, and the broker may have to be started. */
static void start_handshakes(struct inspect *i, const struct tls_hello *hello) {
    const char *alpn[ARRAY_LEN(protocols)];
    size_t n = common_protocols(hello, alpn);
    struct err err = {0};
    SSL *ssl;

    i->tls.client_likes = alpn[0];
    i->tls.leaf = tls_leaf_get(i->gate->tls, &i->host, on_leaf, i);
    i->tls.no_leaf = !i->tls.leaf;
    if (i->denied) {
        i->tls.alpn = alpn[n - 1] == protocols[PROTOCOL_H1] ? alpn[n - 1] : alpn[0];
        inspect_enter(i, STATE_LEAF);
        return;
    }
    ssl = tls_client(i->gate->tls, &i->host, alpn, n, &err);
    if (!ssl || stream_start_tls(&inspect_server(i)->s, ssl, &err) < 0)
        inspect_trouble(i, INSPECT_HANDSHAKE, err.msg);
    else
        inspect_enter(i, STATE_SERVER);
    if (ssl && inspect_covers(i)) {
        SSL_set_options(ssl, SSL_OP_CLEANSE_PLAINTEXT);
        SSL_clear_mode(ssl, SSL_MODE_RELEASE_BUFFERS); /* a buffer is zeroed whole each time it is given back */
    }
}

/*
 * The caller has seen a whole ClientHello in most cases. In the others SO_RCVLOWAT keeps the loop from spinning: it
 * wakes up for more bytes than these, or because no more will come.
 */
static void wait_for_more(struct inspect *i, size_t n) {
    if (n <= i->tls.peeked) {
        inspect_finish(i, INSPECT_CLIENT_GONE);
        return;
    }
    i->tls.peeked = n;
    hub_low_water(i->gate->hub, inspect_client(i)->s.fd, (int)n + 1);
}

void inspect_step_hello(struct inspect *i) {
    CHUNK_BUFFER data[TLS_HELLO_MAX + 1];
    struct tls_hello hello;
    int fd = inspect_client(i)->s.fd;
    ssize_t n = recv(fd, data, sizeof data, MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        inspect_finish(i, INSPECT_CLIENT_GONE);
        return;
    }
    switch (tls_hello_parse(data, (size_t)n, &hello)) {
    case TLS_HELLO_OK:
        if (i->tls.peeked)
            hub_low_water(i->gate->hub, fd, 1);
        start_handshakes(i, &hello);
        break;
    case TLS_HELLO_MORE:
        wait_for_more(i, (size_t)n);
        break;
    case TLS_HELLO_NOT_TLS:
        set_why(i, "the client ", "does not speak TLS");
        inspect_finish(i, INSPECT_HANDSHAKE);
    }
}

static void judge_server(struct inspect *i, int r, const struct err *err) {
    const SSL *ssl = inspect_server(i)->s.ssl;
    long verified = SSL_get_verify_result(ssl);
    char why[sizeof i->why];
    const unsigned char *alpn;
    unsigned len;

    if (verified != X509_V_OK) {
        snprintf(why, sizeof why, "the server's certificate is not trusted: %s", X509_verify_cert_error_string(verified));
        inspect_trouble(i, INSPECT_NOT_TRUSTED, why);
        return;
    }
    if (r < 0) {
        inspect_trouble(i, INSPECT_HANDSHAKE, err->msg);
        return;
    }
    SSL_get0_alpn_selected(ssl, &alpn, &len);
    i->tls.alpn = protocols[len == 2 && memcmp(alpn, "h2", 2) == 0 ? PROTOCOL_H2 : PROTOCOL_H1];
    inspect_enter(i, STATE_LEAF);
}

void inspect_step_server(struct inspect *i) {
    struct err err = {0};
    int r = stream_handshake(&inspect_server(i)->s, &err);

    if (r != -EAGAIN)
        judge_server(i, r, &err);
}

/* Without a leaf nothing but an alert can be said to the client. */
static void refuse_client(struct inspect *i) {
    uint8_t alert[TLS_ALERT_LEN];

    tls_alert_write(i->denied ? TLS_ALERT_ACCESS_DENIED : TLS_ALERT_HANDSHAKE_FAILURE, alert);
    if (!i->has_trouble)
        set_why(i, "", "there is no certificate for this host");
    stream_write(&inspect_client(i)->s, alert, sizeof alert);
    inspect_drain(i, i->has_trouble ? i->trouble : INSPECT_NO_LEAF);
}

void inspect_step_leaf(struct inspect *i) {
    SSL *ssl;

    if (i->tls.no_leaf)
        refuse_client(i);
    if (!i->tls.ctx)
        return;
    ssl = tls_server(i->tls.ctx, i->tls.alpn);
    if (!ssl || stream_start_tls(&inspect_client(i)->s, ssl, NULL) < 0)
        inspect_finish(i, INSPECT_HANDSHAKE);
    else
        inspect_enter(i, STATE_CLIENT);
}

/* A client that did not take the protocol of the server would be misread. */
static bool client_agrees(const struct inspect *i, const SSL *ssl) {
    const unsigned char *alpn;
    unsigned len;

    SSL_get0_alpn_selected(ssl, &alpn, &len);
    return i->tls.alpn != protocols[PROTOCOL_H2] || (len == 2 && memcmp(alpn, "h2", 2) == 0);
}

void inspect_step_client(struct inspect *i) {
    struct err err = {0};
    struct inspect_side *client = inspect_client(i);
    int r = stream_handshake(&client->s, &err);

    if (r == -EAGAIN)
        return;
    if (r == 0 && !client_agrees(i, client->s.ssl))
        r = err_set(&err, -EPROTO, "the client and the server do not agree on a protocol");
    if (r == 0 && inspect_open(i, i->tls.alpn == protocols[PROTOCOL_H2] ? HTTPX_H2 : HTTPX_H1) < 0)
        r = err_oom(&err);
    if (r == 0) {
        inspect_enter(i, STATE_OPEN);
        return;
    }
    if (!i->has_trouble)
        set_why(i, "client: ", err.msg);
    inspect_drain(i, i->has_trouble ? i->trouble : INSPECT_HANDSHAKE);
}
