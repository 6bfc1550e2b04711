/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of SSH hosts and users, made by OpenSSL, and what they sign. */
#pragma once

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "proto/ssh_agent.h"

enum { SCENE_BYTES = 64 * 1024 };

struct ssh_pair {
    EVP_PKEY *key;
    const char *type, *how, *curve, *hash; /* how: name of its signatures */
    struct buf blob;                       /* the public key */
};

static void put_text(struct buf *b, const char *s) {
    ssh_put_string(b, s, strlen(s));
}

static struct ssh_bytes bytes_of(const struct buf *b) {
    assert_true(buf_ok(b));
    return (struct ssh_bytes){(const uint8_t *)b->data, b->len};
}

static void put_number(struct buf *b, const BIGNUM *n) {
    uint8_t bytes[2100] = {0};
    int len = BN_bn2bin(n, bytes + 1);
    bool high = bytes[1] & 0x80;

    ssh_put_string(b, bytes + !high, (size_t)len + high);
}

static void put_param_number(struct buf *b, EVP_PKEY *key, const char *name) {
    BIGNUM *n = NULL;

    assert_int_equal(EVP_PKEY_get_bn_param(key, name, &n), 1);
    put_number(b, n);
    BN_free(n);
}

static struct ssh_pair pair_ed25519(void) {
    struct ssh_pair p = {
        EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), "ssh-ed25519", "ssh-ed25519", NULL, NULL, BUF_INIT(SCENE_BYTES)};
    uint8_t pk[32];
    size_t len = sizeof pk;

    assert_int_equal(EVP_PKEY_get_raw_public_key(p.key, pk, &len), 1);
    put_text(&p.blob, p.type);
    ssh_put_string(&p.blob, pk, len);
    return p;
}

static UNUSED struct ssh_pair pair_ecdsa(const char *type, const char *curve, const char *group, const char *hash) {
    struct ssh_pair p = {EVP_EC_gen(group), type, type, curve, hash, BUF_INIT(SCENE_BYTES)};
    uint8_t point[200];
    size_t len = 0;

    assert_int_equal(EVP_PKEY_get_octet_string_param(p.key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point, &len), 1);
    put_text(&p.blob, type);
    put_text(&p.blob, curve);
    ssh_put_string(&p.blob, point, len);
    return p;
}

static UNUSED struct ssh_pair pair_rsa(size_t bits, const char *how, const char *hash) {
    struct ssh_pair p = {EVP_RSA_gen(bits), "ssh-rsa", how, NULL, hash, BUF_INIT(SCENE_BYTES)};

    put_text(&p.blob, p.type);
    put_param_number(&p.blob, p.key, OSSL_PKEY_PARAM_RSA_E);
    put_param_number(&p.blob, p.key, OSSL_PKEY_PARAM_RSA_N);
    return p;
}

static void pair_done(struct ssh_pair *p) {
    EVP_PKEY_free(p->key);
    buf_done(&p->blob);
}

static void put_ecdsa(struct buf *b, const uint8_t *der, size_t len) {
    CLEANUP(buf_done) struct buf both = BUF_INIT(SCENE_BYTES);
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);

    put_number(&both, ECDSA_SIG_get0_r(sig));
    put_number(&both, ECDSA_SIG_get0_s(sig));
    ssh_put_string(b, both.data, both.len);
    ECDSA_SIG_free(sig);
}

static void pair_sign(const struct ssh_pair *p, struct ssh_bytes data, struct buf *out) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t sig[2100];
    size_t len = sizeof sig;

    assert_int_equal(EVP_DigestSignInit_ex(ctx, NULL, p->hash, NULL, NULL, p->key, NULL), 1);
    assert_int_equal(EVP_DigestSign(ctx, sig, &len, data.p, data.len), 1);
    EVP_MD_CTX_free(ctx);
    put_text(out, p->how);
    if (p->curve)
        put_ecdsa(out, sig, len);
    else
        ssh_put_string(out, sig, len);
}
