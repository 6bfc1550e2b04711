/* SPDX-License-Identifier: Apache-2.0 */
/* Host names as a sandbox may send them: what is accepted has one spelling, and is its own spelling. */
#include "base/err.h"
#include "policy/host/host.h"
#include "policy/host/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_host(const struct host *h) {
    struct err err = {0};
    struct host again;

    if (h->len == 0 || h->len > HOST_TEXT_MAX || strlen(h->text) != h->len)
        BUG("a host of no length");
    if (h->kind == HOST_NAME && strspn(h->text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != h->len)
        BUG("a name with a byte that no name has");
    if (h->kind == HOST_NAME && (h->text[0] == '.' || h->text[h->len - 1] == '.' || strstr(h->text, "..")))
        BUG("a name with an empty label");
    if (host_parse(h->text, h->len, &again, &err) < 0 || !host_eq(h, &again))
        BUG("a host that is not its own spelling");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    CLEANUP(pattern_done) struct pattern p = {0};
    struct err err = {0};
    struct host h;
    uint16_t port;

    if (host_parse(bytes, size, &h, &err) == 0)
        check_host(&h);
    else if (err.msg[0] == 0)
        BUG("a refusal without a reason");
    if (host_parse_with_port(bytes, size, &h, &port, &err) == 0)
        check_host(&h);
    if (pattern_parse(bytes, size, &p, &err) == 0) {
        CLEANUP(pattern_done) struct pattern again = {0};

        if (pattern_parse(p.text, strlen(p.text), &again, &err) < 0 || again.kind != p.kind || strcmp(p.text, again.text) != 0)
            BUG("a pattern that is not its own spelling");
    }
    return 0;
}
