/* SPDX-License-Identifier: Apache-2.0 */
/* Both messages of a SOCKS5 client, from the same bytes. */
#include "proto/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void greeting(const uint8_t *data, size_t size) {
    struct socks_greeting g = {.len = 777}, again;

    if (socks_greeting_parse(data, size, &g) != SOCKS_OK) {
        if (g.len != 777)
            BUG("a failure that wrote something");
        return;
    }
    if (g.len > size || g.len < 3 || socks_greeting_parse(data, g.len - 1, &again) != SOCKS_MORE)
        BUG("a greeting of another length");
}

static void request(const uint8_t *data, size_t size) {
    struct socks_request q = {.len = 777}, again;

    if (socks_request_parse(data, size, &q) != SOCKS_OK) {
        if (q.len != 777)
            BUG("a failure that wrote something");
        return;
    }
    if (q.len > size || q.host_len > SOCKS_HOST_MAX || q.host[q.host_len] != 0)
        BUG("a request of another length");
    if (q.refuse == SOCKS_SUCCEEDED && (q.port == 0 || q.host_len == 0))
        BUG("a destination that cannot be judged");
    if (socks_request_parse(data, q.len, &again) != SOCKS_OK || memcmp(&q, &again, sizeof q) != 0)
        BUG("what follows the request counts");
    if (socks_request_parse(data, q.len - 1, &again) != SOCKS_MORE)
        BUG("a byte too many");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* of exactly that size */

    if (!exact)
        return 0;
    memcpy(exact, data, size);
    greeting(exact, size);
    request(exact, size);
    free(exact);
    return 0;
}
