/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOCKS5 (RFC 1928), the server's side: no authentication, CONNECT only. A cursor over bytes that were peeked: each function says
 * how many bytes its message takes. SOCKS4, BIND and UDP ASSOCIATE are refused with the reply that says so.
 */
#pragma once

#include "base/macros.h"

enum socks_result { SOCKS_OK, SOCKS_MORE, SOCKS_BAD };

enum { SOCKS_HOST_MAX = 255, SOCKS_REPLY_MAX = 22 };

enum socks_reply {
    SOCKS_SUCCEEDED = 0,
    SOCKS_FAILED = 1,
    SOCKS_NOT_ALLOWED = 2,
    SOCKS_NET_UNREACHABLE = 3,
    SOCKS_HOST_UNREACHABLE = 4,
    SOCKS_REFUSED = 5,
    SOCKS_BAD_COMMAND = 7,
    SOCKS_BAD_ADDRESS = 8
};

struct socks_greeting {
    size_t len;
    bool no_auth; /* the client offers to come without authentication; otherwise answer 05 FF */
};

struct socks_request {
    size_t len;
    enum socks_reply refuse;       /* SOCKS_SUCCEEDED: a CONNECT that can be judged */
    char host[SOCKS_HOST_MAX + 1]; /* as it came, any byte may be in it (ATTACKS 46: NUL); an address in its text form */
    size_t host_len;
    uint16_t port;
};

enum socks_result socks_greeting_parse(const uint8_t *data, size_t len, struct socks_greeting *ret);
enum socks_result socks_request_parse(const uint8_t *data, size_t len, struct socks_request *ret);
size_t socks_reply_write(enum socks_reply reply, uint8_t out[static SOCKS_REPLY_MAX]);
