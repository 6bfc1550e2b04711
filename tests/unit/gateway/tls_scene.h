/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate with a loop and nothing else, a broker in the same loop that signs whatever it is asked for, and certificates for
 * servers. What the gate sends to its supervisor ends here.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/epoll_set.h"
#include "gateway/gate.h"
#include "gateway/secret/brokerlink.h"
#include "gateway/tls/stream.h"
#include "gateway/tls/tls.h"
#include "gateway/tls/tls_priv.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/brokermsg.h"

enum { HANG = 60000 }; /* turns of the loop: only so that a hang ends as a failure */

struct scene {
    struct gate gate; /* first: gate_send() finds the scene by it */
    EVP_PKEY *ca_key, *key;
    X509 *ca;
    int broker;
    uv_poll_t broker_poll;
    unsigned wanted;                 /* WANT_BROKER messages */
    unsigned asked;                  /* requests that the broker got */
    bool silent;                     /* the broker does not answer */
    int status;                      /* of its answers */
    uint8_t out[BROKER_MESSAGE_MAX]; /* of the broker */
    size_t n_out;
};

struct paper {
    const char *name, *alt; /* common name; subjectAltName as OpenSSL writes it, NULL: none */
    long from_s, to_s;      /* from now */
    bool is_ca;
};

void gate_send(struct gate *g, const struct gate_msg *m) {
    struct scene *s = (struct scene *)g;

    if (m->type == GATE_MSG_WANT_BROKER)
        s->wanted++;
}

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value) {
    X509_EXTENSION *e;
    X509V3_CTX ctx;

    X509V3_set_ctx(&ctx, issuer ? issuer : cert, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

static X509 *sign(const struct paper *paper, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key) {
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1 + rand());
    X509_gmtime_adj(X509_getm_notBefore(cert), paper->from_s);
    X509_gmtime_adj(X509_getm_notAfter(cert), paper->to_s);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)paper->name, -1, -1, 0);
    X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : name);
    X509_set_pubkey(cert, key);
    add_extension(cert, issuer, NID_subject_key_identifier, "hash");
    add_extension(cert, issuer, NID_authority_key_identifier, "keyid");
    if (paper->is_ca)
        add_extension(cert, issuer, NID_basic_constraints, "critical,CA:TRUE");
    if (paper->alt)
        add_extension(cert, issuer, NID_subject_alt_name, paper->alt);
    assert_true(X509_sign(cert, issuer_key, EVP_sha256()) > 0);
    return cert;
}

static X509 *sign_host(struct scene *s, const char *alt, EVP_PKEY *key) {
    struct paper paper = {.name = "leaf", .alt = alt, .from_s = -3600, .to_s = 86400};

    return sign(&paper, key, s->ca, s->ca_key);
}

static int bundle(X509 *cert) {
    int fd = memfd_create("trust", MFD_CLOEXEC);
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;
    long len;

    assert_int_equal(PEM_write_bio_X509(bio, cert), 1);
    len = BIO_get_mem_data(bio, &pem);
    assert_int_equal(fd_write_all(fd, "# a comment\n", 12), 0);
    assert_int_equal(fd_write_all(fd, pem, (size_t)len), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    BIO_free(bio);
    return fd;
}

static struct scene *scene_new(void) {
    struct scene *s = calloc(1, sizeof *s);
    struct paper root = {.name = "root", .from_s = -3600, .to_s = 86400, .is_ca = true};
    int trust;

    assert_int_equal(uv_loop_init(&s->gate.loop), 0);
    assert_int_equal(hub_new(&s->gate.loop, &s->gate.hub, NULL), 0);
    s->broker = -1;
    s->ca_key = EVP_EC_gen("P-256");
    s->key = EVP_EC_gen("P-256");
    s->ca = sign(&root, s->ca_key, NULL, s->ca_key);
    trust = bundle(s->ca);
    assert_int_equal(brokerlink_new(&s->gate, &s->gate.broker), 0);
    assert_int_equal(tls_new(&s->gate, &trust, 1, &s->gate.tls, NULL), 0);
    return s;
}

static void scene_turn(struct scene *s) {
    hub_turn(s->gate.hub, HUB_LOOK);
}

/* Answers go out together: this one thread cannot wait until the gate has taken the first ones. */
static void send_answers(struct scene *s) {
    if (s->n_out)
        assert_int_equal(sock_send(s->broker, s->out, s->n_out, NULL, 0), 0);
    s->n_out = 0;
}

static void answer(struct scene *s, const struct broker_request *req, const uint8_t *p) {
    struct broker_answer a = {.id = req->id, .status = s->status};
    EVP_PKEY *key = d2i_PUBKEY(NULL, &p, (long)req->len);
    char alt[BROKER_HOST_MAX + 8];
    uint8_t *out;
    X509 *cert;

    assert_non_null(key);
    snprintf(alt, sizeof alt, "%s:%s", strspn(req->host, "0123456789.") == strlen(req->host) ? "IP" : "DNS", req->host);
    cert = sign_host(s, alt, key);
    assert_in_range(i2d_X509(cert, NULL), 1, 4096);
    if (s->n_out + sizeof a + 4096 > sizeof s->out)
        send_answers(s);
    out = s->out + s->n_out + sizeof a;
    a.len = (uint32_t)i2d_X509(cert, &out);
    memcpy(s->out + s->n_out, &a, sizeof a);
    s->n_out += sizeof a + a.len;
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void on_request(uv_poll_t *poll, int status UNUSED, int events UNUSED) {
    struct scene *s = poll->data;
    static uint8_t bytes[BROKER_MESSAGE_MAX];
    struct broker_request req;
    long n = sock_recv(s->broker, bytes, sizeof bytes, NULL, NULL);

    if (n <= 0) {
        uv_poll_stop(poll);
        return;
    }
    for (const uint8_t *p = bytes; p < bytes + n; p += sizeof req + req.len) {
        memcpy(&req, p, sizeof req);
        assert_true((size_t)(bytes + n - p) >= sizeof req + req.len);
        assert_int_equal(req.type, BROKER_LEAF);
        s->asked++;
        if (!s->silent)
            answer(s, &req, p + sizeof req);
    }
    send_answers(s);
}

static void scene_broker(struct scene *s) {
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    s->broker = pair[1];
    uv_poll_init(&s->gate.loop, &s->broker_poll, s->broker);
    s->broker_poll.data = s;
    uv_poll_start(&s->broker_poll, UV_READABLE, on_request);
    brokerlink_socket(s->gate.broker, pair[0]);
}

static void scene_drop_broker(struct scene *s) {
    if (s->broker < 0)
        return;
    uv_close((uv_handle_t *)&s->broker_poll, NULL);
    scene_turn(s);
    closep(&s->broker);
}

/* A handle that somebody forgot keeps the loop from closing. */
static void scene_free(struct scene *s) {
    scene_drop_broker(s);
    tls_free(s->gate.tls);
    brokerlink_free(s->gate.broker);
    for (int i = 0; i < 10; i++)
        scene_turn(s);
    hub_free(s->gate.hub);
    uv_run(&s->gate.loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&s->gate.loop), 0);
    X509_free(s->ca);
    EVP_PKEY_free(s->ca_key);
    EVP_PKEY_free(s->key);
    free(s);
}

static struct host host_of(const char *text) {
    struct host h;

    assert_int_equal(host_parse(text, strlen(text), &h, NULL), 0);
    return h;
}

UNUSED static void socket_pair(int ret[static 2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret), 0);
}
