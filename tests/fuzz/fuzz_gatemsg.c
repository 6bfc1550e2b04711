/* SPDX-License-Identifier: Apache-2.0 */
/* Between supervisor and gate: a message that is as long as one is taken as one, everything as a configuration. */
#include "base/buf.h"
#include "policy/gateconf.h"
#include "proto/gatemsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *s, size_t size) {
    size_t len = strnlen(s, size);

    if (len == size)
        BUG("a string without an end");
    for (size_t i = 0; i < size; i++)
        if (i < len ? s[i] < 0x20 || s[i] > 0x7e : s[i] != 0)
            BUG("a string that is not plain");
}

static void message(const uint8_t *data) {
    struct gate_msg m;

    memcpy(&m, data, sizeof m);
    if (gatemsg_sane(&m) < 0)
        return;
    if (m.type == 0 || m.type >= GATE_MSG_TYPES || m.kind >= GATE_EVENT_KINDS || m.port > 65535)
        BUG("a number out of range");
    if (m.action >= RULE_ACTIONS || m.code >= POLICY_CODES)
        BUG("a verdict that nobody knows");
    check_text(m.host, sizeof m.host);
    check_text(m.address, sizeof m.address);
    check_text(m.rule, sizeof m.rule);
    check_text(m.layer, sizeof m.layer);
    check_text(m.pattern, sizeof m.pattern);
    check_text(m.method, sizeof m.method);
    check_text(m.path, sizeof m.path);
    check_text(m.secret, sizeof m.secret);
}

static void config(const char *bytes, size_t size) {
    CLEANUP(buf_done) struct buf again = BUF_INIT(GATE_CONFIG_MAX);
    CLEANUP(gate_config_done) struct gate_config c = {0};

    if (gate_config_decode(bytes, size, &c) < 0) {
        if (c.n_layers || c.resolv_conf || c.n_publish || c.grants)
            BUG("a failure that wrote something");
        return;
    }
    if (gate_config_encode(&c, &again) < 0 || again.len != size || memcmp(again.data, bytes, size) != 0)
        BUG("encoding does not undo decoding");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *exact = malloc(size ? size : 1); /* of exactly that size */

    if (!exact)
        return 0;
    memcpy(exact, data, size);
    if (size == sizeof(struct gate_msg))
        message(data);
    config(exact, size);
    free(exact);
    return 0;
}
