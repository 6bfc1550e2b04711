/* SPDX-License-Identifier: Apache-2.0 */
/* A ClientHello: whatever is accepted has clean strings, and neither its beginning nor what follows it changes the answer. */
#include "proto/tls_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hello(const struct tls_hello *h, size_t size) {
    if (h->len == 0 || h->len > size || h->len > TLS_HELLO_MAX)
        BUG("longer than what came");
    if (h->has_sni ? strlen(h->sni) != h->sni_len || h->sni_len == 0 : h->sni_len != 0)
        BUG("a name that is not as long as it says");
    if (h->n_alpn > TLS_ALPN_MAX || (h->n_alpn && !h->has_alpn))
        BUG("too many protocols");
    for (size_t i = 0; i < h->n_alpn; i++)
        if (strnlen(h->alpn[i], sizeof h->alpn[i]) - 1 >= TLS_ALPN_NAME_MAX)
            BUG("a protocol's name is empty or not terminated");
}

/* Read on with ever more bytes, as the gate does: first MORE, then the same answer for ever. */
static void check_prefixes(const uint8_t *data, size_t size, enum tls_hello_result whole) {
    enum tls_hello_result last = TLS_HELLO_MORE;
    struct tls_hello h;

    for (size_t len = 0; len <= size && len < 600; len += 1 + len / 64) {
        enum tls_hello_result r = tls_hello_parse(data, len, &h);

        if (last != TLS_HELLO_MORE && r != last)
            BUG("changed its mind");
        if (r != TLS_HELLO_NOT_TLS && !tls_hello_could_be(data, len))
            BUG("the first look said no");
        last = r;
    }
    if (last != TLS_HELLO_MORE && last != whole)
        BUG("the whole is something else than its beginning");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* of exactly that size */
    struct tls_hello h = {.len = 77}, again;
    enum tls_hello_result r;

    if (!exact)
        return 0;
    memcpy(exact, data, size);
    r = tls_hello_parse(exact, size, &h);
    if (r == TLS_HELLO_OK) {
        check_hello(&h, size);
        if (tls_hello_parse(exact, h.len, &again) != TLS_HELLO_OK || memcmp(&h, &again, sizeof h) != 0)
            BUG("what follows the hello counts");
        if (tls_hello_parse(exact, h.len - 1, &again) != TLS_HELLO_MORE)
            BUG("a byte too many");
    } else if (h.len != 77) {
        BUG("a failure that wrote something");
    }
    check_prefixes(exact, size, r);
    free(exact);
    return 0;
}
