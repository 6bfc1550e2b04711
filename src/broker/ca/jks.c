/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the trust store of Java. */
#include "broker/ca/jks.h"

#include <errno.h>
#include <openssl/evp.h>
#include <time.h>

#include "base/buf.h"

enum { VERSION = 2, TAG_TRUSTED = 2, AT_COUNT = 8 };
static const uint32_t magic = 0xfeedfeed;

static void add_number(struct buf *b, uint64_t n, unsigned bytes) {
    while (bytes--)
        buf_addc(b, (char)(n >> 8 * bytes & 255));
}

static void add_string(struct buf *b, const char *s) {
    add_number(b, strlen(s), 2);
    buf_adds(b, s);
}

void jks_begin(struct jks *j, struct buf *out) {
    *j = (struct jks){.out = out};
    add_number(out, magic, 4);
    add_number(out, VERSION, 4);
    add_number(out, 0, 4); /* jks_end() knows how many */
}

void jks_add(struct jks *j, const char *alias, const X509 *cert) {
    uint8_t *der = NULL;
    int len = i2d_X509(cert, &der);

    if (len <= 0 || j->n == JKS_CERTS_MAX) {
        OPENSSL_free(der);
        j->out->failed = true;
        return;
    }
    add_number(j->out, TAG_TRUSTED, 4);
    add_string(j->out, alias);
    add_number(j->out, (uint64_t)time(NULL) * 1000, 8);
    add_string(j->out, "X.509");
    add_number(j->out, (uint64_t)len, 4);
    buf_add(j->out, der, (size_t)len);
    OPENSSL_free(der);
    j->n++;
}

int jks_end(struct jks *j) {
    static const char password[] = JKS_PASSWORD, words[] = "Mighty Aphrodite";
    uint8_t digest[EVP_MAX_MD_SIZE], wide[2 * (sizeof password - 1)] = {0};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned len = 0;
    bool ok;

    for (size_t i = 0; i < sizeof password - 1; i++)
        wide[2 * i + 1] = (uint8_t)password[i];
    for (int i = 0; buf_ok(j->out) && i < 4; i++)
        j->out->data[AT_COUNT + i] = (char)(j->n >> 8 * (3 - i) & 255);
    ok = md && buf_ok(j->out) && EVP_DigestInit_ex(md, EVP_sha1(), NULL) == 1 && EVP_DigestUpdate(md, wide, sizeof wide) == 1 &&
         EVP_DigestUpdate(md, words, sizeof words - 1) == 1 && EVP_DigestUpdate(md, j->out->data, j->out->len) == 1 &&
         EVP_DigestFinal_ex(md, digest, &len) == 1;
    EVP_MD_CTX_free(md);
    if (ok)
        buf_add(j->out, digest, len);
    return ok && buf_ok(j->out) ? 0 : -ENOMEM;
}
