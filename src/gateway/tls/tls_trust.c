/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's trusted certificates. OpenSSL 3.0 takes 40 ms to make objects of the usual 144, during which nothing else would
 * happen in the gate; one connection needs one of them. So the bundles are only cut into certificates, known by their
 * subjects, and an object is made when a chain leads to it (X509_LOOKUP_METHOD, as OpenSSL's own folders of certificates do
 * it).
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "gateway/tls/tls_priv.h"
#include "os/fd.h"
#include "os/file.h"

enum { TRUST_BUNDLE_MAX = 16 * 1024 * 1024, TRUST_CERTS_MAX = 4096 };

struct anchor {
    X509_NAME *subject;
    uint8_t *der;
    long len;
};

struct trust {
    X509_LOOKUP_METHOD *method;
    struct anchor *v;
    size_t len;
};

void trust_free(struct trust *t) {
    if (!t)
        return;
    for (size_t i = 0; i < t->len; i++) {
        X509_NAME_free(t->v[i].subject);
        OPENSSL_free(t->v[i].der);
    }
    X509_LOOKUP_meth_free(t->method);
    free(t->v);
    free(t);
}

/* Adds all certificates of this subject to the store, which is how the rest of OpenSSL finds the second and later ones. */
static int find_subject(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name, X509_OBJECT *ret) {
    const struct trust *t = X509_LOOKUP_get_method_data(lookup);
    int found = 0;

    for (size_t i = 0; type == X509_LU_X509 && i < t->len; i++) {
        const uint8_t *p = t->v[i].der;
        X509 *cert = X509_NAME_cmp(t->v[i].subject, name) == 0 ? d2i_X509_AUX(NULL, &p, t->v[i].len) : NULL;

        if (cert && X509_STORE_add_cert(X509_LOOKUP_get_store(lookup), cert) == 1 && !found) {
            found = X509_OBJECT_set1_X509(ret, cert);
            if (found)
                X509_free(cert); /* the caller takes a reference, too: one would stay for ever (X509_LOOKUP_meth_new(3)) */
        }
        X509_free(cert);
    }
    ERR_clear_error();
    return found;
}

/* Enters a SEQUENCE, or steps over an element. */
static bool enter(const uint8_t **p, const uint8_t *end) {
    int tag, class;
    long len;

    return !(ASN1_get_object(p, &len, &tag, &class, end - *p) & 0x80) && tag == V_ASN1_SEQUENCE;
}

static bool skip(const uint8_t **p, const uint8_t *end) {
    int tag, class;
    long len;

    if (ASN1_get_object(p, &len, &tag, &class, end - *p) & 0x80)
        return false;
    *p += len;
    return true;
}

/* RFC 5280: version (may be missing), serial number, algorithm, issuer, validity, subject. */
static X509_NAME *read_subject(const uint8_t *der, long len) {
    const uint8_t *p = der, *end = der + len;
    bool ok = enter(&p, end);

    ok = ok && enter(&p, end);
    if (ok && p < end && *p == (V_ASN1_CONTEXT_SPECIFIC | V_ASN1_CONSTRUCTED))
        ok = skip(&p, end);
    for (int i = 0; ok && i < 4; i++)
        ok = skip(&p, end);
    return ok ? d2i_X509_NAME(NULL, &p, end - p) : NULL;
}

static int add_anchor(struct trust *t, uint8_t *der, long len) {
    X509_NAME *subject = read_subject(der, len);
    int r = 0;

    if (subject && t->len < TRUST_CERTS_MAX)
        r = VEC_ADD(t->v, t->len, (struct anchor){.subject = subject, .der = der, .len = len});
    else if (subject)
        r = -E2BIG;
    if (r == 0 && subject)
        return 0;
    X509_NAME_free(subject);
    OPENSSL_free(der); /* what cannot be read is not trusted */
    return r;
}

static int cut_bundle(struct trust *t, const struct buf *pem) {
    BIO *bio = BIO_new_mem_buf(buf_str(pem), (int)pem->len);
    char *name, *header;
    uint8_t *der;
    long len;
    int r = bio ? 0 : -ENOMEM;

    while (r == 0 && PEM_read_bio(bio, &name, &header, &der, &len) == 1) {
        r = add_anchor(t, der, len);
        OPENSSL_free(name);
        OPENSSL_free(header);
    }
    ERR_clear_error(); /* the end of the file is an error to the reader */
    BIO_free(bio);
    return r;
}

static int read_bundle(struct trust *t, int fd, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(TRUST_BUNDLE_MAX);
    int r = file_read_fd(fd, FILE_ANY, &b);

    if (r < 0 && r != -EFBIG)
        return err_sys(err, r, "read the host's trusted certificates");
    if (r < 0 || cut_bundle(t, &b) < 0)
        return err_set(err, -EFBIG, "the host's trusted certificates are too many");
    return 0;
}

int trust_read(int *fds, size_t n, struct trust **ret, struct err *err) {
    struct trust *t = calloc(1, sizeof *t);
    int r = t ? 0 : err_oom(err);

    for (size_t i = 0; r == 0 && i < n; i++) {
        CLEANUP(closep) int fd = TAKE_FD(fds[i]);

        r = fd < 0 ? 0 : read_bundle(t, fd, err);
    }
    if (r == 0 && !t->len)
        r = err_set(err, -ENOENT, "the host has no trusted certificates (package ca-certificates)");
    if (r < 0) {
        trust_free(t);
        return r;
    }
    *ret = t;
    return 0;
}

int trust_attach(struct trust *t, X509_STORE *store) {
    X509_LOOKUP *lookup;

    t->method = X509_LOOKUP_meth_new("bundles of the host");
    if (!t->method || X509_LOOKUP_meth_set_get_by_subject(t->method, find_subject) != 1)
        return -ENOMEM;
    lookup = X509_STORE_add_lookup(store, t->method);
    return lookup && X509_LOOKUP_set_method_data(lookup, t) == 1 ? 0 : -ENOMEM;
}
