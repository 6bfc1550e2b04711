/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "tls_scene.h"

struct pair {
    struct stream client, server;
    struct err client_err, server_err;
    int client_r, server_r;
};

static void step_both(struct pair *p) {
    p->client_r = p->server_r = -EAGAIN;
    for (int i = 0; i < HANG && (p->client_r == -EAGAIN || p->server_r == -EAGAIN); i++) {
        if (p->client_r == -EAGAIN)
            p->client_r = stream_handshake(&p->client, &p->client_err);
        if (p->server_r == -EAGAIN)
            p->server_r = stream_handshake(&p->server, &p->server_err);
        if (p->client_r < 0 && p->client_r != -EAGAIN)
            break;
    }
}

/* A client's side for host against a server that shows this certificate. */
static void connect_pair(struct scene *s, const char *host, X509 *cert, const char *server_alpn, struct pair *p) {
    static const char *const alpn[] = {"h2", "http/1.1"};
    struct host h = host_of(host);
    SSL_CTX *ctx = tls_server_context(cert, s->key);
    int fds[2];

    assert_non_null(ctx);
    *p = (struct pair){0};
    socket_pair(fds);
    stream_init(&p->client, fds[0]);
    stream_init(&p->server, fds[1]);
    assert_int_equal(stream_start_tls(&p->client, tls_client(s->gate.tls, &h, alpn, 2, NULL), NULL), 0);
    assert_int_equal(stream_start_tls(&p->server, tls_server(ctx, server_alpn), NULL), 0);
    SSL_CTX_free(ctx);
    step_both(p);
}

static void pair_done(struct pair *p) {
    stream_done(&p->client);
    stream_done(&p->server);
}

static const struct {
    const char *host, *alt;
    int verdict;
    long from_s, to_s;
    bool stranger; /* signed by a CA that nobody knows */
} papers[] = {
    {"example.com", "DNS:example.com", X509_V_OK, -3600, 3600, false},
    {"www.example.com", "DNS:*.example.com", X509_V_OK, -3600, 3600, false},
    {"192.0.2.7", "IP:192.0.2.7", X509_V_OK, -3600, 3600, false},
    {"2001:db8::7", "IP:2001:db8::7", X509_V_OK, -3600, 3600, false},
    {"example.com", "DNS:example.org", X509_V_ERR_HOSTNAME_MISMATCH, -3600, 3600, false},
    {"a.b.example.com", "DNS:*.example.com", X509_V_ERR_HOSTNAME_MISMATCH, -3600, 3600, false},
    {"www.example.com", "DNS:w*.example.com", X509_V_ERR_HOSTNAME_MISMATCH, -3600, 3600, false},
    {"example.com", NULL, X509_V_ERR_HOSTNAME_MISMATCH, -3600, 3600, false}, /* only the common name has it */
    {"192.0.2.7", "DNS:192.0.2.7", X509_V_ERR_IP_ADDRESS_MISMATCH, -3600, 3600, false},
    {"192.0.2.7", "IP:192.0.2.8", X509_V_ERR_IP_ADDRESS_MISMATCH, -3600, 3600, false},
    {"example.com", "DNS:example.com", X509_V_ERR_CERT_HAS_EXPIRED, -7200, -3600, false},
    {"example.com", "DNS:example.com", X509_V_ERR_CERT_NOT_YET_VALID, 3600, 7200, false},
    {"example.com", "DNS:example.com", X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, -3600, 3600, true},
};

static void test_servers_are_verified(void **state UNUSED) {
    for (size_t i = 0; i < ARRAY_LEN(papers); i++) {
        struct scene *s = scene_new();
        struct paper root = {.name = "stranger", .from_s = -3600, .to_s = 3600, .is_ca = true};
        struct paper leaf = {.name = "example.com", .alt = papers[i].alt, .from_s = papers[i].from_s, .to_s = papers[i].to_s};
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509 *stranger = sign(&root, key, NULL, key);
        X509 *cert = papers[i].stranger ? sign(&leaf, s->key, stranger, key) : sign(&leaf, s->key, s->ca, s->ca_key);
        struct pair p;

        connect_pair(s, papers[i].host, cert, "h2", &p);
        if (SSL_get_verify_result(p.client.ssl) != papers[i].verdict || (p.client_r == 0) != (papers[i].verdict == X509_V_OK))
            fail_msg("%s with %s: %ld, %d", papers[i].host, papers[i].alt, SSL_get_verify_result(p.client.ssl), p.client_r);
        if (p.client_r < 0)
            assert_string_equal(p.client_err.msg, "the TLS handshake failed: certificate verify failed");
        pair_done(&p);
        X509_free(cert);
        X509_free(stranger);
        EVP_PKEY_free(key);
        scene_free(s);
    }
}

static void test_no_trust_no_connection(void **state UNUSED) {
    struct scene *s = scene_new();
    struct host h = host_of("example.com");
    int empty = memfd_create("empty", MFD_CLOEXEC);
    struct err err = {0};
    struct tls *t;

    assert_int_equal(tls_new(&s->gate, &empty, 1, &t, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_null(tls_client(t, &h, NULL, 0, &err));
        assert_string_equal(err.msg, "the host has no trusted certificates (package ca-certificates)");
    }
    tls_free(t);
    scene_free(s);
}

/* Cross-signed roots: the second one of a name must be found, too. */
static void test_two_roots_of_one_name(void **state UNUSED) {
    struct scene *s = scene_new();
    struct paper root = {.name = "root", .from_s = -3600, .to_s = 3600, .is_ca = true};
    struct paper between = {.name = "between", .from_s = -3600, .to_s = 3600, .is_ca = true};
    EVP_PKEY *other_key = EVP_EC_gen("P-256");
    X509 *other = sign(&root, other_key, NULL, other_key), *certs[] = {sign(&between, other_key, s->ca, s->ca_key), NULL, NULL};
    int trust[] = {bundle(other), bundle(certs[0]), bundle(s->ca)};
    struct pair p;

    tls_free(s->gate.tls);
    assert_int_equal(tls_new(&s->gate, trust, ARRAY_LEN(trust), &s->gate.tls, NULL), 0);
    certs[1] = sign_host(s, "DNS:example.com", s->key);
    certs[2] = sign(&(struct paper){.name = "leaf", .alt = "DNS:example.com", .from_s = -3600, .to_s = 3600}, s->key, certs[0],
                    other_key);
    for (size_t i = 1; i < ARRAY_LEN(certs); i++) {
        connect_pair(s, "example.com", certs[i], "h2", &p);
        assert_int_equal(p.client_r, 0);
        pair_done(&p);
    }
    for (size_t i = 0; i < ARRAY_LEN(certs); i++)
        X509_free(certs[i]);
    X509_free(other);
    EVP_PKEY_free(other_key);
    scene_free(s);
}

static void test_versions_and_protocols(void **state UNUSED) {
    static const struct {
        const char *server, *chosen;
    } cases[] = {{"h2", "h2"}, {"http/1.1", "http/1.1"}, {NULL, ""}, {"imap", ""}};
    struct scene *s = scene_new();
    X509 *cert = sign_host(s, "DNS:example.com", s->key);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const uint8_t *alpn;
        unsigned len;
        struct pair p;

        connect_pair(s, "example.com", cert, cases[i].server, &p);
        assert_int_equal(p.client_r, 0);
        SSL_get0_alpn_selected(p.client.ssl, &alpn, &len);
        assert_int_equal(len, strlen(cases[i].chosen));
        assert_memory_equal(alpn ? (const char *)alpn : "", cases[i].chosen, len);
        assert_int_equal(SSL_get_min_proto_version(p.client.ssl), TLS1_2_VERSION);
        assert_int_equal(SSL_get_min_proto_version(p.server.ssl), TLS1_2_VERSION);
        assert_true(SSL_get_options(p.server.ssl) & SSL_OP_NO_RENEGOTIATION);
        assert_int_equal(SSL_get_max_early_data(p.server.ssl), 0);
        pair_done(&p);
    }

    X509_free(cert);
    scene_free(s);
}

static void test_bytes_and_ends(void **state UNUSED) {
    static uint8_t sent[3000000], got[sizeof sent + 100000];
    struct scene *s = scene_new();
    X509 *cert = sign_host(s, "DNS:example.com", s->key);

    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (uint8_t)(i * 13 + i / 4099);
    for (int clean = 0; clean < 2; clean++) {
        size_t out = 0, in = 0;
        bool stopped = false;
        struct pair p;

        connect_pair(s, "example.com", cert, "h2", &p);
        assert_int_equal(p.server_r, 0);
        while (in < sizeof sent) {
            ssize_t n = out < sizeof sent ? stream_write(&p.server, sent + out, MIN_OF(sizeof sent - out, 100000u)) : -EAGAIN;

            stopped |= n == -EAGAIN;
            assert_true(n > 0 || n == -EAGAIN);
            out += n > 0 ? (size_t)n : 0;
            n = stream_read(&p.client, got + in, 64 * 1024);
            assert_true(n > 0 || n == -EAGAIN);
            in += n > 0 ? (size_t)n : 0;
        }
        assert_true(stopped); /* a blocked write was repeated */
        assert_memory_equal(sent, got, sizeof sent);
        assert_int_equal(stream_read(&p.client, got, 1), -EAGAIN);
        assert_false(p.client.readable);
        if (clean)
            assert_int_equal(stream_shutdown(&p.server), 0);
        else
            stream_done(&p.server);
        assert_int_equal(stream_read(&p.client, got, 1), clean ? 0 : -ECONNRESET);
        pair_done(&p);
    }
    X509_free(cert);
    scene_free(s);
}

static void test_plain_stream(void **state UNUSED) {
    struct stream a, b;
    char text[16];
    int fds[2];

    socket_pair(fds);
    stream_init(&a, fds[0]);
    stream_init(&b, fds[1]);
    assert_int_equal(stream_read(&b, text, sizeof text), -EAGAIN);
    assert_false(b.readable);
    assert_int_equal(stream_write(&a, "hello", 5), 5);
    stream_ready(&b, stream_events(&b, true, false));
    assert_true(b.readable);
    assert_int_equal(stream_read(&b, text, 3), 3);
    assert_true(b.readable);
    assert_int_equal(stream_read(&b, text, sizeof text), 2);
    assert_false(b.readable);
    assert_int_equal(stream_shutdown(&a), 0);
    assert_int_equal(stream_read(&b, text, sizeof text), 0);
    stream_done(&a);
    assert_int_equal(stream_write(&b, "x", 1), -EPIPE);
    stream_done(&b);
}

static void test_sessions_are_used_again(void **state UNUSED) {
    struct scene *s = scene_new();
    X509 *cert = sign_host(s, "DNS:example.com,DNS:example.org", s->key);
    SSL_CTX *ctx = tls_server_context(cert, s->key);
    static const char *const hosts[] = {"example.com", "example.com", "example.org"};

    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        struct host h = host_of(hosts[i]);
        struct pair p = {0};
        char byte;
        int fds[2];

        socket_pair(fds);
        stream_init(&p.client, fds[0]);
        stream_init(&p.server, fds[1]);
        assert_int_equal(stream_start_tls(&p.client, tls_client(s->gate.tls, &h, NULL, 0, NULL), NULL), 0);
        assert_int_equal(stream_start_tls(&p.server, tls_server(ctx, NULL), NULL), 0);
        step_both(&p);
        assert_int_equal(p.client_r, 0);
        assert_int_equal(SSL_session_reused(p.client.ssl), i == 1); /* never for another name */
        assert_int_equal(SSL_get_verify_result(p.client.ssl), X509_V_OK);
        assert_int_equal(stream_write(&p.server, "x", 1), 1);
        assert_int_equal(stream_read(&p.client, &byte, 1), 1); /* takes the ticket, too */
        pair_done(&p);
    }
    SSL_CTX_free(ctx);
    X509_free(cert);
    scene_free(s);
}

struct hope {
    unsigned calls;
    SSL_CTX *ctx;
};

static void on_leaf(void *arg, SSL_CTX *ctx) {
    struct hope *h = arg;

    h->calls++;
    h->ctx = ctx;
}

static void await(struct scene *s, struct hope *h, unsigned calls) {
    for (int i = 0; i < HANG && h->calls < calls; i++)
        scene_turn(s);
    assert_int_equal(h->calls, calls);
}

static void test_leaf_comes_and_is_kept(void **state UNUSED) {
    struct scene *s = scene_new();
    struct host com = host_of("example.com"), org = host_of("192.0.2.9");
    struct hope a = {0}, b = {0}, c = {0};
    X509 *cert;

    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &b));
    assert_non_null(tls_leaf_get(s->gate.tls, &org, on_leaf, &c));
    assert_int_equal(s->wanted, 1);
    scene_broker(s);
    await(s, &c, 1);
    assert_int_equal(a.calls + b.calls, 2);
    assert_int_equal(s->asked, 2);
    assert_ptr_equal(a.ctx, b.ctx);
    cert = SSL_CTX_get0_certificate(a.ctx);
    assert_int_equal(X509_check_host(cert, "example.com", 0, 0, NULL), 1);
    cert = SSL_CTX_get0_certificate(c.ctx);
    assert_int_equal(X509_check_ip_asc(cert, "192.0.2.9", 0), 1);

    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
    assert_int_equal(a.calls, 1); /* never before it returns */
    await(s, &a, 2);
    assert_ptr_equal(a.ctx, b.ctx);
    assert_int_equal(s->asked, 2);
    assert_int_equal(s->wanted, 1);
    scene_free(s);
}

static void test_leaf_is_cancelled(void **state UNUSED) {
    struct scene *s = scene_new();
    struct host com = host_of("example.com");
    struct hope a = {0}, b = {0};
    struct tls_leaf *q = tls_leaf_get(s->gate.tls, &com, on_leaf, &a);

    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &b));
    tls_leaf_cancel(q);
    scene_broker(s);
    await(s, &b, 1);
    assert_non_null(b.ctx);
    q = tls_leaf_get(s->gate.tls, &com, on_leaf, &a);
    tls_leaf_cancel(q);
    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &b));
    await(s, &b, 2);
    assert_int_equal(a.calls, 0);
    scene_free(s);
}

static void test_broker_fails(void **state UNUSED) {
    struct scene *s = scene_new();
    struct host com = host_of("example.com");
    struct hope a = {0};

    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
    brokerlink_socket(s->gate.broker, -1);
    await(s, &a, 1);
    assert_null(a.ctx);

    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
    assert_int_equal(s->wanted, 2); /* asked for again */
    s->silent = true;
    scene_broker(s);
    for (int i = 0; i < HANG && !s->asked; i++)
        scene_turn(s);
    scene_drop_broker(s);
    await(s, &a, 2);
    assert_null(a.ctx);

    s->silent = false;
    s->status = -EACCES;
    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
    scene_broker(s);
    await(s, &a, 3);
    assert_null(a.ctx);
    s->status = 0;
    assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
    await(s, &a, 4);
    assert_non_null(a.ctx);
    scene_free(s);
}

static void test_bad_answers_close_the_socket(void **state UNUSED) {
    static const struct broker_answer answers[] = {
        {.id = 7}, {.id = 0}, {.id = 1, .len = BROKER_DATA_MAX + 1}, {.id = 1, .len = 3}, {.id = 1}};
    static const size_t sizes[] = {sizeof answers[0], sizeof answers[0], sizeof answers[0], sizeof answers[0], 7};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct scene *s = scene_new();
        struct host com = host_of("example.com");
        struct hope a = {0};

        s->silent = true;
        scene_broker(s);
        assert_non_null(tls_leaf_get(s->gate.tls, &com, on_leaf, &a));
        assert_int_equal(sock_send(s->broker, &answers[i], sizes[i], NULL, 0), 0);
        await(s, &a, 1);
        assert_null(a.ctx);
        scene_free(s);
    }
}

static void test_many_hosts(void **state UNUSED) {
    struct scene *s = scene_new();
    struct hope a = {0};
    char name[32];
    struct host h;
    unsigned n = 0;

    for (; n < 300; n++) { /* before there is a broker: bounded */
        snprintf(name, sizeof name, "h%u.example.com", n);
        h = host_of(name);
        if (!tls_leaf_get(s->gate.tls, &h, on_leaf, &a))
            break;
    }
    assert_int_equal(n, 256);
    scene_broker(s);
    await(s, &a, 256);
    for (n = 256; n < 260; n++) { /* the oldest make room */
        snprintf(name, sizeof name, "h%u.example.com", n);
        h = host_of(name);
        assert_non_null(tls_leaf_get(s->gate.tls, &h, on_leaf, &a));
        await(s, &a, n + 1);
        assert_non_null(a.ctx);
    }
    assert_int_equal(s->asked, 260);
    h = host_of("h259.example.com");
    assert_non_null(tls_leaf_get(s->gate.tls, &h, on_leaf, &a));
    h = host_of("h100.example.com");
    assert_non_null(tls_leaf_get(s->gate.tls, &h, on_leaf, &a));
    await(s, &a, 262);
    assert_int_equal(s->asked, 260);
    h = host_of("h0.example.com");
    assert_non_null(tls_leaf_get(s->gate.tls, &h, on_leaf, &a));
    await(s, &a, 263);
    assert_int_equal(s->asked, 261);
    scene_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_servers_are_verified),
        cmocka_unit_test(test_no_trust_no_connection),
        cmocka_unit_test(test_two_roots_of_one_name),
        cmocka_unit_test(test_versions_and_protocols),
        cmocka_unit_test(test_bytes_and_ends),
        cmocka_unit_test(test_plain_stream),
        cmocka_unit_test(test_sessions_are_used_again),
        cmocka_unit_test(test_leaf_comes_and_is_kept),
        cmocka_unit_test(test_leaf_is_cancelled),
        cmocka_unit_test(test_broker_fails),
        cmocka_unit_test(test_bad_answers_close_the_socket),
        cmocka_unit_test(test_many_hosts),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
