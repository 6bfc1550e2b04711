/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first request on the gate's explicit proxy port: "CONNECT host:port" or "GET http://host/...". Peeked bytes in, struct out.
 * Only the request line is understood here and where the head ends; an absolute-URI request is then read again, strictly, by the HTTP
 * code. Strict: CRLF line ends (a bare LF is bad), one space between the parts, HTTP/1.0 or 1.1, no control characters.
 */
#pragma once

#include "base/macros.h"

enum proxyreq_result { PROXYREQ_OK, PROXYREQ_MORE, PROXYREQ_BAD };

enum { PROXYREQ_HEAD_MAX = 32 * 1024, PROXYREQ_HOST_MAX = 300 };

struct proxyreq {
    bool connect;    /* false: absolute URI with scheme http */
    size_t head_len; /* bytes up to and with the empty line */
    char authority[PROXYREQ_HOST_MAX +
                   1]; /* "host:port" as it came; userinfo makes the request bad; port missing: ":80" is added */
    char why[120];     /* PROXYREQ_BAD: a clause for the answer */
};

enum proxyreq_result proxyreq_parse(const uint8_t *data, size_t len, struct proxyreq *ret);
