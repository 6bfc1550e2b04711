/* SPDX-License-Identifier: Apache-2.0 */
/* Verifies signatures of host keys, by OpenSSL. */
#include "broker/ssh/ssh_hostkey.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

enum { ED25519_KEY = 32, ED25519_SIGNATURE = 64, EC_POINT_MAX = 1 + 2 * 66, EC_NUMBER_MAX = 66, EC_DER_MAX = 160 };

struct hostkey_kind {
    const char *key, *signature; /* their names on the wire */
    const char *curve;           /* ECDSA: on the wire */
    const char *group;           /* and for OpenSSL */
    const char *hash;            /* NULL: the algorithm has its own */
    int (*load)(const struct hostkey_kind *k, struct ssh_reader *r, EVP_PKEY **ret);
    int (*check)(const struct hostkey_kind *k, EVP_PKEY *key, struct ssh_bytes sig, struct ssh_bytes data);
};

static int verify(const struct hostkey_kind *k, EVP_PKEY *key, const uint8_t *sig, size_t len, struct ssh_bytes data) {
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int r = -ENOMEM;

    if (ctx && EVP_DigestVerifyInit_ex(ctx, NULL, k->hash, NULL, NULL, key, NULL) == 1)
        r = EVP_DigestVerify(ctx, sig, len, data.p, data.len) == 1 ? 0 : -EKEYREJECTED;
    EVP_MD_CTX_free(ctx);
    return r;
}

static int check_plain(const struct hostkey_kind *k, EVP_PKEY *key, struct ssh_bytes sig, struct ssh_bytes data) {
    return verify(k, key, sig.p, sig.len, data);
}

static int check_ed25519(const struct hostkey_kind *k, EVP_PKEY *key, struct ssh_bytes sig, struct ssh_bytes data) {
    return sig.len == ED25519_SIGNATURE ? verify(k, key, sig.p, sig.len, data) : -EBADMSG;
}

/* SSH has r and s as two numbers, OpenSSL wants DER. */
static int check_ecdsa(const struct hostkey_kind *k, EVP_PKEY *key, struct ssh_bytes sig, struct ssh_bytes data) {
    struct ssh_reader rd = ssh_reader_of(sig.p, sig.len);
    struct ssh_bytes r = ssh_get_string(&rd), s = ssh_get_string(&rd);
    uint8_t der[EC_DER_MAX], *end = der;
    ECDSA_SIG *pair;
    BIGNUM *bn_r, *bn_s;
    int len = -1;

    if (!ssh_end(&rd) || !r.len || !s.len || r.len > EC_NUMBER_MAX + 1 || s.len > EC_NUMBER_MAX + 1)
        return -EBADMSG;
    pair = ECDSA_SIG_new();
    bn_r = BN_bin2bn(r.p, (int)r.len, NULL);
    bn_s = BN_bin2bn(s.p, (int)s.len, NULL);
    if (!pair || !bn_r || !bn_s || ECDSA_SIG_set0(pair, bn_r, bn_s) != 1) {
        BN_free(bn_r);
        BN_free(bn_s);
        ECDSA_SIG_free(pair);
        return -ENOMEM;
    }
    if (i2d_ECDSA_SIG(pair, NULL) <= (int)sizeof der)
        len = i2d_ECDSA_SIG(pair, &end);
    ECDSA_SIG_free(pair);
    return len > 0 ? verify(k, key, der, (size_t)len, data) : -EBADMSG;
}

static int load_ed25519(const struct hostkey_kind *k UNUSED, struct ssh_reader *r, EVP_PKEY **ret) {
    struct ssh_bytes pk = ssh_get_string(r);

    if (!ssh_end(r) || pk.len != ED25519_KEY)
        return -EBADMSG;
    *ret = EVP_PKEY_new_raw_public_key_ex(NULL, "ED25519", NULL, pk.p, pk.len);
    return *ret ? 0 : -EBADMSG;
}

static int from_params(const char *name, OSSL_PARAM *params, EVP_PKEY **ret) {
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, name, NULL);
    int r = -ENOMEM;

    if (ctx && params && EVP_PKEY_fromdata_init(ctx) == 1)
        r = EVP_PKEY_fromdata(ctx, ret, EVP_PKEY_PUBLIC_KEY, params) == 1 ? 0 : -EBADMSG;
    EVP_PKEY_CTX_free(ctx);
    return r;
}

static int load_ecdsa(const struct hostkey_kind *k, struct ssh_reader *r, EVP_PKEY **ret) {
    struct ssh_bytes curve = ssh_get_string(r), point = ssh_get_string(r);
    uint8_t copy[EC_POINT_MAX];

    if (!ssh_end(r) || !ssh_is(curve, k->curve) || !point.len || point.len > sizeof copy || point.p[0] != 4 /* not compressed */)
        return -EBADMSG;
    memcpy(copy, point.p, point.len);
    return from_params("EC",
                       (OSSL_PARAM[]){
                           OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *)k->group, 0),
                           OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, copy, point.len),
                           OSSL_PARAM_construct_end(),
                       },
                       ret);
}

static int load_rsa(const struct hostkey_kind *k UNUSED, struct ssh_reader *r, EVP_PKEY **ret) {
    struct ssh_bytes e = ssh_get_string(r), n = ssh_get_string(r);
    OSSL_PARAM_BLD *build;
    OSSL_PARAM *params = NULL;
    BIGNUM *bn_e, *bn_n;
    int bits, result = -ENOMEM;

    /* A huge exponent makes each check cost seconds. */
    if (!ssh_end(r) || !e.len || e.len > 8 || !n.len || n.len > SSH_RSA_BITS_MAX / 8 + 1)
        return -EBADMSG;
    build = OSSL_PARAM_BLD_new();
    bn_e = BN_bin2bn(e.p, (int)e.len, NULL);
    bn_n = BN_bin2bn(n.p, (int)n.len, NULL);
    bits = bn_n ? BN_num_bits(bn_n) : 0;
    if (bits < SSH_RSA_BITS_MIN || bits > SSH_RSA_BITS_MAX)
        result = -EOPNOTSUPP;
    else if (build && bn_e && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, bn_n) == 1 &&
             OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, bn_e) == 1 && (params = OSSL_PARAM_BLD_to_param(build)))
        result = from_params("RSA", params, ret);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    BN_free(bn_e);
    BN_free(bn_n);
    return result;
}

static const struct hostkey_kind kinds[] = {
    {.key = "ssh-ed25519", .signature = "ssh-ed25519", .load = load_ed25519, .check = check_ed25519},
    {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256", "nistp256", "P-256", "SHA256", load_ecdsa, check_ecdsa},
    {"ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384", "nistp384", "P-384", "SHA384", load_ecdsa, check_ecdsa},
    {"ecdsa-sha2-nistp521", "ecdsa-sha2-nistp521", "nistp521", "P-521", "SHA512", load_ecdsa, check_ecdsa},
    {.key = "ssh-rsa", .signature = "rsa-sha2-256", .hash = "SHA256", .load = load_rsa, .check = check_plain},
    {.key = "ssh-rsa", .signature = "rsa-sha2-512", .hash = "SHA512", .load = load_rsa, .check = check_plain},
};

int ssh_hostkey_verify(struct ssh_bytes key, struct ssh_bytes signature, struct ssh_bytes data) {
    struct ssh_reader rk = ssh_reader_of(key.p, key.len), rs = ssh_reader_of(signature.p, signature.len);
    struct ssh_bytes type = ssh_get_string(&rk), how = ssh_get_string(&rs), sig = ssh_get_string(&rs);
    EVP_PKEY *pkey = NULL;
    int r;

    if (rk.bad || !ssh_end(&rs))
        return -EBADMSG;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct hostkey_kind *k = &kinds[i];

        if (!ssh_is(type, k->key) || !ssh_is(how, k->signature))
            continue;
        r = k->load(k, &rk, &pkey);
        r = r < 0 ? r : k->check(k, pkey, sig, data);
        EVP_PKEY_free(pkey);
        return r;
    }
    return -EOPNOTSUPP;
}
