/* A request to bawn-broker, cut or filled up to its size: refused, or answered with a certificate of exactly the length it says. */
#include <openssl/x509v3.h>

#include "base/err.h"
#include "broker/serve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct ca *authority(void) {
    static struct ca ca;
    struct err err = {0};

    if (!ca.key && ca_make(&ca, &err) < 0)
        BUG("no certificate authority");
    return &ca;
}

static void check_certificate(const struct broker_answer *a) {
    const uint8_t *p = a->data;
    X509 *cert = d2i_X509(NULL, &p, (long)a->len);

    if (!cert || p != a->data + a->len || X509_verify(cert, authority()->key) != 1 || X509_check_ca(cert) != 0)
        BUG("an answer that is no leaf of ours");
    X509_free(cert);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct broker_answer a = {.id = 77};
    struct broker_request q = {0};
    size_t len = MIN_OF(size, sizeof q);

    memcpy(&q, data, len);
    /* Most inputs are short: they are taken as the beginning of a whole request. */
    if (serve_answer(authority(), &q, size < sizeof q ? sizeof q : size, &a) < 0) {
        if (a.id != 77 || a.len)
            BUG("a failure that wrote something");
        return 0;
    }
    if (a.id != q.id || a.status > 0 || a.len > sizeof a.data || (a.status < 0 && a.len))
        BUG("an answer to something else");
    if (a.status == 0)
        check_certificate(&a);
    return 0;
}
