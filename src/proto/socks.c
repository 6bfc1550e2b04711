/* SPDX-License-Identifier: Apache-2.0 */
/* Reads SOCKS5. */
#include "proto/socks.h"

#include <arpa/inet.h>

enum { VERSION = 5, METHOD_NONE = 0, COMMAND_CONNECT = 1, ADDRESS_IPV4 = 1, ADDRESS_NAME = 3, ADDRESS_IPV6 = 4 };
enum { GREETING_HEAD = 2, REQUEST_HEAD = 4, PORT_LEN = 2 };

static_assert(INET6_ADDRSTRLEN <= SOCKS_HOST_MAX, "an address fits");

enum socks_result socks_greeting_parse(const uint8_t *data, size_t len, struct socks_greeting *ret) {
    size_t n_methods;

    if (len > 0 && data[0] != VERSION)
        return SOCKS_BAD;
    if (len < GREETING_HEAD)
        return SOCKS_MORE;
    n_methods = data[1];
    if (n_methods == 0)
        return SOCKS_BAD;
    if (len < GREETING_HEAD + n_methods)
        return SOCKS_MORE;
    *ret = (struct socks_greeting){
        .len = GREETING_HEAD + n_methods,
        .no_auth = memchr(data + GREETING_HEAD, METHOD_NONE, n_methods) != NULL,
    };
    return SOCKS_OK;
}

/* Where the address begins and how long it is; false: that is not known yet. Length 0: an unknown kind. */
static bool address_place(const uint8_t *data, size_t len, size_t *ret_at, size_t *ret_len) {
    uint8_t kind = data[REQUEST_HEAD - 1];

    if (kind == ADDRESS_NAME && len <= REQUEST_HEAD)
        return false;
    *ret_at = kind == ADDRESS_NAME ? REQUEST_HEAD + 1 : REQUEST_HEAD;
    *ret_len = kind == ADDRESS_NAME ? data[REQUEST_HEAD] : kind == ADDRESS_IPV4 ? 4 : kind == ADDRESS_IPV6 ? 16 : 0;
    return true;
}

static void read_host(uint8_t kind, const uint8_t *at, size_t len, struct socks_request *q) {
    if (kind == ADDRESS_NAME) {
        memcpy(q->host, at, len);
        q->host_len = len;
        return;
    }
    inet_ntop(kind == ADDRESS_IPV4 ? AF_INET : AF_INET6, at, q->host, sizeof q->host);
    q->host_len = strlen(q->host);
}

enum socks_result socks_request_parse(const uint8_t *data, size_t len, struct socks_request *ret) {
    struct socks_request q = {0};
    size_t at, host_len;

    if ((len > 0 && data[0] != VERSION) || (len > 2 && data[2] != 0))
        return SOCKS_BAD;
    if (len < REQUEST_HEAD || !address_place(data, len, &at, &host_len))
        return SOCKS_MORE;
    if (host_len == 0) { /* the rest of the request has no known length: answer and close */
        *ret = (struct socks_request){.len = at, .refuse = SOCKS_BAD_ADDRESS};
        return SOCKS_OK;
    }
    if (len < at + host_len + PORT_LEN)
        return SOCKS_MORE;
    read_host(data[REQUEST_HEAD - 1], data + at, host_len, &q);
    q.len = at + host_len + PORT_LEN;
    q.port = (uint16_t)(data[at + host_len] << 8 | data[at + host_len + 1]);
    /* To the policy, port 0 means "not known yet". */
    q.refuse = data[1] != COMMAND_CONNECT ? SOCKS_BAD_COMMAND : q.port == 0 ? SOCKS_BAD_ADDRESS : SOCKS_SUCCEEDED;
    *ret = q;
    return SOCKS_OK;
}

size_t socks_reply_write(enum socks_reply reply, uint8_t out[static SOCKS_REPLY_MAX]) {
    const uint8_t bytes[] = {VERSION, (uint8_t)reply, 0, ADDRESS_IPV4, 0, 0, 0, 0, 0, 0};

    static_assert(sizeof bytes <= SOCKS_REPLY_MAX, "a reply fits");
    memcpy(out, bytes, sizeof bytes);
    return sizeof bytes;
}
