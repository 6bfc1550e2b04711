/* SPDX-License-Identifier: Apache-2.0 */
/* Java's file of trusted certificates: all that can be read, nothing else, and a digest that Java agrees with. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "broker/ca/ca.h"
#include "broker/ca/jks.h"

enum { DIGEST = 20, BUNDLE_MAX = 64 * 1024 };

static uint64_t number(const uint8_t **p, unsigned bytes) {
    uint64_t n = 0;

    while (bytes--)
        n = n << 8 | *(*p)++;
    return n;
}

/* The next entry must have this alias, and the certificate. */
static void check_entry(const uint8_t **p, const char *alias, const X509 *cert) {
    uint8_t *der = NULL;
    int len = i2d_X509(cert, &der);

    assert_int_equal(number(p, 4), 2);
    assert_int_equal(number(p, 2), strlen(alias));
    assert_memory_equal(*p, alias, strlen(alias));
    *p += strlen(alias) + 8;
    assert_int_equal(number(p, 2), 5);
    assert_memory_equal(*p, "X.509", 5);
    *p += 5;
    assert_int_equal(number(p, 4), len);
    assert_memory_equal(*p, der, (size_t)len);
    *p += len;
    OPENSSL_free(der);
}

static void check_digest(const struct buf *b) {
    static const uint8_t before[] = "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite";
    CLEANUP(buf_done) struct buf all = BUF_INIT(2 * BUNDLE_MAX);
    uint8_t digest[EVP_MAX_MD_SIZE];

    buf_add(&all, before, sizeof before - 1);
    buf_add(&all, b->data, b->len - DIGEST);
    assert_int_equal(EVP_Digest(all.data, all.len, digest, NULL, EVP_sha1(), NULL), 1);
    assert_memory_equal(b->data + b->len - DIGEST, digest, DIGEST);
}

static void test_what_can_be_read(void **state) {
    CLEANUP(buf_done) struct buf bundle = BUF_INIT(BUNDLE_MAX), out = BUF_INIT(JKS_MAX);
    CLEANUP(ca_done) struct ca own = {0}, one = {0}, two = {0};
    struct err err = {0};
    const uint8_t *p;

    assert_int_equal(ca_make(&own, &err) + ca_make(&one, &err) + ca_make(&two, &err), 0);
    buf_adds(&bundle, "# words\n");
    assert_int_equal(ca_pem(&one, &bundle), 0);
    buf_adds(&bundle, "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n");
    buf_adds(&bundle, "-----BEGIN PUBLIC KEY-----\nMAMCAQE=\n-----END PUBLIC KEY-----\n");
    assert_int_equal(ca_pem(&two, &bundle), 0);

    assert_int_equal(jks_write(own.cert, &bundle, &out), 0);
    p = (const uint8_t *)out.data;
    assert_int_equal(number(&p, 4), 0xfeedfeed);
    assert_int_equal(number(&p, 4), 2);
    assert_int_equal(number(&p, 4), 3);
    check_entry(&p, "bawn", own.cert);
    check_entry(&p, "host-1", one.cert);
    check_entry(&p, "host-2", two.cert);
    assert_int_equal((const char *)p - out.data, out.len - DIGEST);
    check_digest(&out);
}

static void test_no_bundle(void **state) {
    CLEANUP(buf_done) struct buf bundle = BUF_INIT(BUNDLE_MAX), out = BUF_INIT(JKS_MAX);
    CLEANUP(ca_done) struct ca own = {0};
    struct err err = {0};

    assert_int_equal(ca_make(&own, &err), 0);
    assert_int_equal(jks_write(own.cert, &bundle, &out), 0);
    assert_int_equal(out.data[11], 1);
    check_digest(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_can_be_read),
        cmocka_unit_test(test_no_bundle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
