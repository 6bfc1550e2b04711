/*
 * The language between bawn-gate (or whoever may ask) and bawn-broker. SOCK_SEQPACKET, one request, one answer, in order. The broker's
 * table of requests is short on purpose; whatever is not in it, or is not exactly as long as it says, closes the socket.
 */
#pragma once

#include "base/macros.h"

enum { BROKER_PROTOCOL = 1, BROKER_HOST_MAX = 253, BROKER_DATA_MAX = 4096 };

enum broker_request_type {
    BROKER_LEAF = 1 /* host, data: a public key (SubjectPublicKeyInfo, DER, P-256 only). Answer: a certificate (DER) for it */
};

struct broker_request {
    uint32_t type;
    uint32_t id;
    uint32_t len; /* of data */
    char host[BROKER_HOST_MAX + 3];
    uint8_t data[BROKER_DATA_MAX];
};

struct broker_answer {
    uint32_t id;
    int32_t status; /* 0, or -errno */
    uint32_t len;
    uint8_t data[BROKER_DATA_MAX];
};
