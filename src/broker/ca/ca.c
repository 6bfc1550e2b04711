/* SPDX-License-Identifier: Apache-2.0 */
/* Certificate authorities of sandboxes, and the leaves that they sign. */
#include "broker/ca/ca.h"

#include <errno.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/hex.h"
#include "os/fd.h"
#include "os/file.h"

enum { SERIAL_BITS = 126, DAY_S = 24 * 3600, NAME_BYTES = 6, NAME_MAX_IN_SUBJECT = 64, SPKI_LEN = 91 };

static const char key_name[] = "key.pem", cert_name[] = "ca.pem";

/* Version 3, a random serial number, valid from CA_EARLY_S ago for `days`. False: no memory. */
static bool ca_begin(X509 *cert, int days) {
    BIGNUM *n = BN_new();
    bool ok = n && BN_rand(n, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert)) != NULL;

    BN_free(n);
    return ok && X509_set_version(cert, X509_VERSION_3) == 1 && X509_gmtime_adj(X509_getm_notBefore(cert), -CA_EARLY_S) &&
           X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * DAY_S);
}

/* In OpenSSL's configuration language: never bytes of a peer. */
struct ca_extension {
    int nid;
    const char *value;
};

static bool ca_extend(X509 *cert, X509 *issuer, const struct ca_extension *e) {
    X509_EXTENSION *ext;
    X509V3_CTX ctx;
    bool ok;

    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    ext = X509V3_EXT_nconf_nid(NULL, &ctx, e->nid, e->value);
    ok = ext && X509_add_ext(cert, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

static bool ca_sign(X509 *cert, const struct ca *ca, const struct ca_extension *extensions, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!ca_extend(cert, ca->cert, &extensions[i]))
            return false;
    return X509_sign(cert, ca->key, EVP_sha256()) > 0;
}

static bool name_authority(X509 *cert) {
    char name[64] = "Bawn sandbox CA ";
    uint8_t random[NAME_BYTES];

    if (RAND_bytes(random, sizeof random) != 1)
        return false;
    hex_encode(random, sizeof random, name + strlen(name));
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const uint8_t *)name, -1, -1, 0) == 1 &&
           X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1;
}

static bool sign_self(struct ca *ca) {
    static const struct ca_extension extensions[] = {
        {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid:always"},
    };

    if (!ca_begin(ca->cert, CA_DAYS) || !name_authority(ca->cert) || X509_set_pubkey(ca->cert, ca->key) != 1)
        return false;
    return ca_sign(ca->cert, ca, extensions, ARRAY_LEN(extensions));
}

int ca_make(struct ca *ret, struct err *err) {
    CLEANUP(ca_done) struct ca ca = {.key = EVP_EC_gen("P-256"), .cert = X509_new()};

    if (!ca.key || !ca.cert || !sign_self(&ca))
        return err_set(err, -EIO, "OpenSSL could not make a certificate authority");
    *ret = TAKE(ca, (struct ca){0});
    return 0;
}

void ca_done(struct ca *ca) {
    EVP_PKEY_free(ca->key); /* which zeroes the private number */
    X509_free(ca->cert);
    *ca = (struct ca){0};
}

static int write_file(int dirfd, const char *name, mode_t mode, const void *data, size_t len, struct err *err) {
    int r = file_create_at(dirfd, name, mode, data, len);

    return r < 0 ? err_sys(err, r, "write %s of the certificate authority", name) : 0;
}

int ca_pem(const struct ca *ca, struct buf *out) {
    BIO *bio = BIO_new(BIO_s_mem());
    char *data;
    long n;

    if (!bio || PEM_write_bio_X509(bio, ca->cert) != 1) {
        BIO_free(bio);
        return -ENOMEM;
    }
    n = BIO_get_mem_data(bio, &data);
    buf_add(out, data, (size_t)n);
    BIO_free(bio);
    return buf_ok(out) ? 0 : -ENOMEM;
}

/* Secure memory of BIO_s_secmem() is zeroed when it is freed; a plain one is not. */
static int write_key(const struct ca *ca, int dirfd, struct err *err) {
    BIO *bio = BIO_new(BIO_s_secmem());
    char *data = NULL;
    long n = 0;
    int r;

    if (!bio || PEM_write_bio_PrivateKey(bio, ca->key, NULL, NULL, 0, NULL, NULL) != 1) {
        BIO_free(bio);
        return err_oom(err);
    }
    n = BIO_get_mem_data(bio, &data);
    r = write_file(dirfd, key_name, 0600, data, (size_t)n, err);
    OPENSSL_cleanse(data, (size_t)n);
    BIO_free(bio);
    return r;
}

int ca_write(const struct ca *ca, int dirfd, struct err *err) {
    CLEANUP(buf_done) struct buf pem = BUF_INIT(CA_PEM_MAX);
    int r = ca_pem(ca, &pem);

    if (r < 0)
        return err_oom(err);
    r = write_key(ca, dirfd, err);
    return r < 0 ? r : write_file(dirfd, cert_name, 0644, pem.data, pem.len, err);
}

/* What PEM_read_bio_* gives, by either function. */
static int read_pem(int dirfd, const char *name, struct ca *ca, struct err *err) {
    char text[CA_PEM_MAX];
    ssize_t n = fd_read_file_at(dirfd, name, text, sizeof text);
    BIO *bio = n < 0 ? NULL : BIO_new_mem_buf(text, (int)n);

    if (bio && name == key_name)
        ca->key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    else if (bio)
        ca->cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    OPENSSL_cleanse(text, sizeof text);
    return n < 0 ? err_sys(err, (int)n, "read %s of the certificate authority", name) : 0;
}

int ca_read(int dirfd, struct ca *ret, struct err *err) {
    CLEANUP(ca_done) struct ca ca = {0};
    int r = read_pem(dirfd, key_name, &ca, err);

    r = r < 0 ? r : read_pem(dirfd, cert_name, &ca, err);
    if (r < 0)
        return r;
    if (!ca.key || !ca.cert || X509_check_private_key(ca.cert, ca.key) != 1)
        return err_set(err, -EINVAL, "the certificate authority is damaged: its key and its certificate do not belong together");
    *ret = TAKE(ca, (struct ca){0});
    return 0;
}

/* Leaves ----------------------------------------------------------------------------------------------------------- */

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

static bool fill_leaf(X509 *cert, const struct ca *ca, const struct host *host, EVP_PKEY *key) {
    static const struct ca_extension extensions[] = {
        {NID_basic_constraints, "critical,CA:FALSE"},
        {NID_key_usage, "critical,digitalSignature"},
        {NID_ext_key_usage, "serverAuth"},
        {NID_subject_key_identifier, "hash"},
        {NID_authority_key_identifier, "keyid:always"},
    };

    if (!ca_begin(cert, LEAF_DAYS) || !limit_time(cert, ca) || !name_leaf(cert, host) || X509_set_pubkey(cert, key) != 1 ||
        X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) != 1)
        return false;
    return ca_sign(cert, ca, extensions, ARRAY_LEN(extensions));
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
    else if (!cert || !fill_leaf(cert, ca, host, key))
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
