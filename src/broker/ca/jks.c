/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java's own file of trusted certificates (JKS, version 2), because Java reads no PEM. All numbers big-endian:
 *
 *     magic  version  count  { 2 (trusted certificate)  alias  milliseconds since 1970  "X.509"  length  DER }  SHA-1
 *
 * The digest is over the password as UTF-16, the words "Mighty Aphrodite", and the file; it is against accidents, not attackers.
 */
#include "broker/ca/jks.h"

#include <errno.h>
#include <openssl/asn1t.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <time.h>

#include "base/buf.h"
#include "base/str.h"

#define JKS_PASSWORD "changeit" /* Java's default */

struct jks {
    struct buf *out;
    uint32_t n;
};

enum { JKS_VERSION = 2, JKS_TRUSTED = 2, JKS_AT_COUNT = 8 };
static const uint32_t jks_magic = 0xfeedfeed;

static void add_number(struct buf *b, uint64_t n, unsigned bytes) {
    while (bytes--)
        buf_addc(b, (char)(n >> 8 * bytes & 255));
}

static void add_jks_string(struct buf *b, const char *s) {
    add_number(b, strlen(s), 2);
    buf_adds(b, s);
}

static void jks_add(struct jks *j, const char *alias, const uint8_t *der, long len) {
    if (len <= 0 || j->n == JKS_CERTS_MAX) {
        j->out->failed = true;
        return;
    }
    add_number(j->out, JKS_TRUSTED, 4);
    add_jks_string(j->out, alias);
    add_number(j->out, (uint64_t)time(NULL) * 1000, 8);
    add_jks_string(j->out, "X.509");
    add_number(j->out, (uint64_t)len, 4);
    buf_add(j->out, der, (size_t)len);
    j->n++;
}

/* -ENOMEM: no memory, or more than fits. */
static int jks_end(struct jks *j) {
    static const char password[] = JKS_PASSWORD, words[] = "Mighty Aphrodite";
    uint8_t digest[EVP_MAX_MD_SIZE], wide[2 * (sizeof password - 1)] = {0};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned len = 0;
    bool ok;

    for (size_t i = 0; i < sizeof password - 1; i++)
        wide[2 * i + 1] = (uint8_t)password[i];
    for (int i = 0; buf_ok(j->out) && i < 4; i++)
        j->out->data[JKS_AT_COUNT + i] = (char)(j->n >> 8 * (3 - i) & 255);
    ok = md && buf_ok(j->out) && EVP_DigestInit_ex(md, EVP_sha1(), NULL) == 1 && EVP_DigestUpdate(md, wide, sizeof wide) == 1 &&
         EVP_DigestUpdate(md, words, sizeof words - 1) == 1 && EVP_DigestUpdate(md, j->out->data, j->out->len) == 1 &&
         EVP_DigestFinal_ex(md, digest, &len) == 1;
    EVP_MD_CTX_free(md);
    if (ok)
        buf_add(j->out, digest, len);
    return ok && buf_ok(j->out) ? 0 : -ENOMEM;
}

/* A certificate whose key is not looked at: of keys OpenSSL 3.0 makes objects at once, which takes 40 ms for the usual 144. Java would
 * refuse the whole file for one that cannot be read. */
struct outline_info {
    ASN1_INTEGER *version, *serial;
    X509_ALGOR *algorithm;
    X509_NAME *issuer;
    X509_VAL *validity;
    X509_NAME *subject;
    ASN1_TYPE *key;
    ASN1_BIT_STRING *issuer_id, *subject_id;
    STACK_OF(X509_EXTENSION) * extensions;
};
typedef struct outline_info OUTLINE_INFO;
struct outline {
    OUTLINE_INFO *info;
    X509_ALGOR *algorithm;
    ASN1_BIT_STRING *signature;
};
typedef struct outline OUTLINE;

/* clang-format off */
ASN1_SEQUENCE(OUTLINE_INFO) = {
    ASN1_EXP_OPT(OUTLINE_INFO, version, ASN1_INTEGER, 0),
    ASN1_SIMPLE(OUTLINE_INFO, serial, ASN1_INTEGER),
    ASN1_SIMPLE(OUTLINE_INFO, algorithm, X509_ALGOR),
    ASN1_SIMPLE(OUTLINE_INFO, issuer, X509_NAME),
    ASN1_SIMPLE(OUTLINE_INFO, validity, X509_VAL),
    ASN1_SIMPLE(OUTLINE_INFO, subject, X509_NAME),
    ASN1_SIMPLE(OUTLINE_INFO, key, ASN1_ANY),
    ASN1_IMP_OPT(OUTLINE_INFO, issuer_id, ASN1_BIT_STRING, 1),
    ASN1_IMP_OPT(OUTLINE_INFO, subject_id, ASN1_BIT_STRING, 2),
    ASN1_EXP_SEQUENCE_OF_OPT(OUTLINE_INFO, extensions, X509_EXTENSION, 3),
} static_ASN1_SEQUENCE_END(OUTLINE_INFO)

ASN1_SEQUENCE(OUTLINE) = {
    ASN1_SIMPLE(OUTLINE, info, OUTLINE_INFO),
    ASN1_SIMPLE(OUTLINE, algorithm, X509_ALGOR),
    ASN1_SIMPLE(OUTLINE, signature, ASN1_BIT_STRING),
} static_ASN1_SEQUENCE_END(OUTLINE)
    /* clang-format on */

    static bool is_certificate(const char *name, const uint8_t *der, long len) {
    const uint8_t *p = der;
    ASN1_VALUE *v;

    if (!str_eq(name, PEM_STRING_X509) && !str_eq(name, PEM_STRING_X509_OLD))
        return false;
    v = ASN1_item_d2i(NULL, &p, len, ASN1_ITEM_rptr(OUTLINE));
    ASN1_item_free(v, ASN1_ITEM_rptr(OUTLINE));
    return v && p == der + len;
}

static void add_bundle(struct jks *j, const struct buf *bundle) {
    BIO *bio = BIO_new_mem_buf(buf_str(bundle), (int)bundle->len);
    char *name, *header, alias[32];
    uint8_t *der;
    long len;

    j->out->failed |= !bio;
    while (bio && PEM_read_bio(bio, &name, &header, &der, &len) == 1) {
        snprintf(alias, sizeof alias, "host-%u", j->n);
        if (is_certificate(name, der, len))
            jks_add(j, alias, der, len);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(der);
    }
    ERR_clear_error();
    BIO_free(bio);
}

int jks_write(const X509 *own, const struct buf *bundle, struct buf *out) {
    struct jks j = {.out = out};
    uint8_t *der = NULL;
    int len = i2d_X509(own, &der);

    add_number(out, jks_magic, 4);
    add_number(out, JKS_VERSION, 4);
    add_number(out, 0, 4); /* jks_end() knows how many */
    jks_add(&j, "bawn", der, len);
    OPENSSL_free(der);
    add_bundle(&j, bundle);
    return jks_end(&j);
}
