/* SPDX-License-Identifier: Apache-2.0 */
/* The first request on the proxy port. What is accepted has a head that ends with an empty line, and an authority with a port. */
#include "base/err.h"
#include "policy/host/host.h"
#include "proto/proxyreq.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(const uint8_t *data, size_t size, const struct proxyreq *q) {
    size_t len = strnlen(q->authority, sizeof q->authority);
    struct proxyreq again;
    struct host host;
    uint16_t port;

    if (q->head_len > size || q->head_len > PROXYREQ_HEAD_MAX || memcmp(data + q->head_len - 4, "\r\n\r\n", 4) != 0)
        BUG("the head ends elsewhere");
    if (len < 3 || len > PROXYREQ_HOST_MAX || strpbrk(q->authority, "@/\\?# \r\n\t"))
        BUG("an authority that is none");
    if (host_parse_with_port(q->authority, len, &host, &port, NULL) == 0 && port == 0)
        BUG("a destination without a port");
    if (proxyreq_parse(data, q->head_len, &again) != PROXYREQ_OK || memcmp(q, &again, sizeof *q) != 0)
        BUG("what follows the head counts");
    if (proxyreq_parse(data, q->head_len - 1, &again) != PROXYREQ_MORE)
        BUG("a byte too many");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1); /* of exactly that size */
    struct proxyreq q = {0};
    enum proxyreq_result r;

    if (!exact)
        return 0;
    memcpy(exact, data, size);
    r = proxyreq_parse(exact, size, &q);
    if (r == PROXYREQ_OK)
        check_request(exact, size, &q);
    if ((r == PROXYREQ_BAD) != (q.why[0] != 0))
        BUG("a refusal without a reason, or a reason without one");
    free(exact);
    return 0;
}
