/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "broker/ca/ca_priv.h"

enum { NAME_MAX_IN_SUBJECT = 64, SPKI_LEN = 91 };

/*
 * The beginning of every uncompressed P-256 key. Comparing it keeps whatever else a SubjectPublicKeyInfo can hold, and OpenSSL's code
 * for it (curves with their own parameters: CVE-2022-0778), away from a program that has a key to lose.
 */
static const uint8_t spki_head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
                                    0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04};
static_assert(sizeof spki_head + 64 == SPKI_LEN, "then come the two coordinates");

static EVP_PKEY *read_key(const uint8_t *spki, size_t len) {
    const uint8_t *p = spki;

    if (len != SPKI_LEN || memcmp(spki, spki_head, sizeof spki_head) != 0)
        return NULL;
    return d2i_PUBKEY(NULL, &p, (long)len); /* NULL if the point is not on the curve */
}

static GENERAL_NAME *general_name(const struct host *host) {
    bool is_name = host->kind == HOST_NAME;
    const void *bytes = is_name ? (const void *)host->text : host->addr.b;
    int len = is_name ? (int)host->len : host->addr.len;
    ASN1_STRING *value = ASN1_STRING_type_new(is_name ? V_ASN1_IA5STRING : V_ASN1_OCTET_STRING);
    GENERAL_NAME *name = GENERAL_NAME_new();

    if (!value || !name || ASN1_STRING_set(value, bytes, len) != 1) {
        ASN1_STRING_free(value);
        GENERAL_NAME_free(name);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, is_name ? GEN_DNS : GEN_IPADD, value);
    return name;
}

/* critical: where the subject is empty, as RFC 5280 wants it. */
static bool add_host(X509 *cert, const struct host *host, bool critical) {
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *name = general_name(host);
    bool ok;

    if (!names || !name || sk_GENERAL_NAME_push(names, name) <= 0) {
        GENERAL_NAME_free(name);
        GENERAL_NAMES_free(names);
        return false;
    }
    ok = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, critical, 0) == 1;
    GENERAL_NAMES_free(names);
    return ok;
}

static bool name_leaf(X509 *cert, const struct host *host) {
    bool fits = host->len <= NAME_MAX_IN_SUBJECT;

    if (fits && X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const uint8_t *)host->text,
                                           (int)host->len, -1, 0) != 1)
        return false;
    return add_host(cert, host, !fits);
}

/* Not longer than the authority itself. */
static bool limit_time(X509 *cert, const struct ca *ca) {
    const ASN1_TIME *end = X509_get0_notAfter(ca->cert);

    return ASN1_TIME_compare(X509_get0_notAfter(cert), end) <= 0 || X509_set1_notAfter(cert, end) == 1;
}

static bool fill(X509 *cert, const struct ca *ca, const struct host *host, EVP_PKEY *key) {
    static const struct {
        int nid;
        const char *value;
    } extensions[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth"},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid:always"},
    };

    if (!ca_begin(cert, LEAF_DAYS) || !limit_time(cert, ca) || !name_leaf(cert, host) || X509_set_pubkey(cert, key) != 1 ||
        X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) != 1)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (!ca_extend(cert, ca->cert, extensions[i].nid, extensions[i].value))
            return false;
    return X509_sign(cert, ca->key, EVP_sha256()) > 0;
}

int ca_leaf(const struct ca *ca, const struct host *host, const uint8_t *spki, size_t len, uint8_t *out, size_t max,
            size_t *ret_len) {
    EVP_PKEY *key = read_key(spki, len);
    X509 *cert = key ? X509_new() : NULL;
    int n, r = 0;

    if (!key)
        return -EINVAL;
    if (X509_cmp_current_time(X509_get0_notAfter(ca->cert)) <= 0)
        r = -EKEYEXPIRED;
    else if (!cert || !fill(cert, ca, host, key))
        r = -ENOMEM;
    n = r < 0 ? 0 : i2d_X509(cert, NULL);
    if (r == 0 && (n <= 0 || (size_t)n > max))
        r = -EMSGSIZE;
    if (r == 0)
        *ret_len = (size_t)i2d_X509(cert, &out);
    X509_free(cert);
    EVP_PKEY_free(key);
    return r;
}
