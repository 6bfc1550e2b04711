/* SPDX-License-Identifier: Apache-2.0 */
/* Both directions of a TLS connection behind the first hello: pieces of <direction><two bytes of length><bytes>. What comes in one piece and what comes
 * byte by byte is the same. */
#include "proto/tls_retry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    enum tls_retry_result result;
    struct tls_hello hello;
};

static enum tls_retry_result feed(struct tls_retry *t, bool client, const uint8_t *data, size_t len, size_t step,
                                  struct outcome *o) {
    enum tls_retry_result r = TLS_RETRY_MORE;

    for (size_t at = 0; at < len && r == TLS_RETRY_MORE; at += step) {
        size_t n = MIN_OF(step, len - at);

        r = client ? tls_retry_client(t, data + at, n, &o->hello) : tls_retry_server(t, data + at, n);
    }
    return r;
}

static struct outcome run(const uint8_t *data, size_t size, bool bytewise) {
    struct outcome o = {.result = TLS_RETRY_MORE};
    struct tls_retry t;

    tls_retry_init(&t, size ? data[0] : 0);
    for (size_t at = 1; at + 3 <= size && o.result == TLS_RETRY_MORE;) {
        size_t len = MIN_OF((size_t)data[at + 1] << 8 | data[at + 2], size - at - 3);

        o.result = feed(&t, data[at] & 1, data + at + 3, len, bytewise ? 1 : MAX_OF(len, (size_t)1), &o);
        at += 3 + len;
    }
    if (t.n_hello > TLS_HELLO_MAX || t.n_answer > TLS_SERVER_HELLO_HEAD)
        BUG("more than there is room for");
    if (o.result == TLS_RETRY_HELLO && !t.retry)
        BUG("a second hello that was not asked for");
    tls_retry_done(&t);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct outcome whole = run(data, size, false), bytes = run(data, size, true);

    if (whole.result != bytes.result)
        BUG("it depends on the pieces");
    if (whole.result == TLS_RETRY_HELLO && memcmp(&whole.hello, &bytes.hello, sizeof whole.hello) != 0)
        BUG("the hello depends on the pieces");
    return 0;
}
