/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate and a broker get from their supervisor: policy, the host's network settings, credentials (without values) and what
 * the ssh-agent may do. Travels as bytes in a memfd (gatemsg.h, brokermsg.h: CONFIG). Encoded by the supervisor, decoded by bawn-gate
 * and bawn-broker; all are ours, but every bound is checked.
 */
#pragma once

#include "base/strv.h"
#include "policy/credential/credential.h"
#include "policy/rules/verdict.h"
#include "proto/gatemsg.h"

struct buf;

enum { GATE_CONFIG_MAX = 16 * 1024 * 1024, GATE_TEXT_MAX = 1024 * 1024 };

struct gate_layer {
    uint32_t kind; /* enum policy_layer_kind */
    bool narrow_only;
    char *name; /* of the file, for messages */
    char *text; /* as rules_read() takes it */
};

struct gate_publish {
    uint16_t inside, outside;
};

struct gate_config {
    uint32_t generation;
    uint32_t mode; /* enum net_mode; NET_UNSET: see policy_init() */
    bool can_ask;
    uint32_t ask_timeout_ms; /* then: deny */
    struct gate_layer layers[LAYERS];
    size_t n_layers;
    char *resolv_conf, *hosts;                 /* texts of the host's files; "" if there are none */
    char *http_proxy, *https_proxy, *no_proxy; /* of the host's environment; "" if unset. May hold credentials */
    struct gate_publish publish[GATE_PUBLISH_MAX];
    size_t n_publish;
    uint32_t max_flows; /* connections at once */
    struct grant *grants;
    size_t n_grants;
    bool ssh;          /* there is an ssh-agent outside that may be asked */
    char *ssh_keys;    /* which of its keys: lines, each a SHA256:... fingerprint or a key's comment; "": all */
    char *known_hosts; /* text of the user's file: which host key is whose; "" if there is none */
};

int gate_config_encode(const struct gate_config *c, struct buf *out);
int gate_config_decode(const char *bytes, size_t len, struct gate_config *ret); /* -EBADMSG */
void gate_config_done(struct gate_config *c);
