/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket (RFC 6455), the server's side: bytes in, messages out. Strict: a frame without a mask, with a reserved bit, in an unknown kind, longer
 * than need be in its length, or out of order ends the connection with the close code that the RFC has for it. No extension is offered.
 *
 *     websocket_feed(&w, data, len);
 *     while ((r = websocket_next(&w, &m)) == 1) ...     m.data is valid until the next call
 *     if (r < 0) close with -r
 */
#pragma once

#include "base/buf.h"

enum { WEBSOCKET_MESSAGE_MAX = 64 * 1024, WEBSOCKET_INPUT_MAX = 2 * WEBSOCKET_MESSAGE_MAX + 4096, WEBSOCKET_CONTROL_MAX = 125 };

enum websocket_kind {
    WEBSOCKET_CONTINUED = 0,
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10
};

enum websocket_code {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_AWAY = 1001,
    WEBSOCKET_PROTOCOL = 1002,
    WEBSOCKET_BAD_TEXT = 1007,
    WEBSOCKET_TOO_BIG = 1009,
    WEBSOCKET_INTERNAL = 1011
};

struct websocket {
    struct buf in;      /* bytes that were not used yet */
    struct buf message; /* of fragments, and of the message that was given out */
    size_t used;        /* bytes of `in` before the next frame */
    enum websocket_kind kind;
    bool open; /* a message whose last fragment is still to come */
    bool given;
    char control[WEBSOCKET_CONTROL_MAX + 1];
};
#define WEBSOCKET_INIT \
    { .in = BUF_INIT(WEBSOCKET_INPUT_MAX), .message = BUF_INIT(WEBSOCKET_MESSAGE_MAX) }

struct websocket_message {
    enum websocket_kind kind; /* not WEBSOCKET_CONTINUED */
    const char *data;
    size_t len;
    unsigned code; /* of WEBSOCKET_CLOSE; 0: none was given */
};

void websocket_done(struct websocket *w);
/* How many more bytes there is room for; feed no more. */
size_t websocket_room(const struct websocket *w);
void websocket_feed(struct websocket *w, const char *data, size_t len);
/* 1: a message; 0: more bytes are needed; negative: -enum websocket_code, and nothing more is read. */
int websocket_next(struct websocket *w, struct websocket_message *ret);

/* A whole message to a client. */
void websocket_add(struct buf *b, enum websocket_kind kind, const void *data, size_t len);
void websocket_add_close(struct buf *b, unsigned code, const char *reason);

enum { WEBSOCKET_ACCEPT_SIZE = 29 };
/* Sec-WebSocket-Accept for a key; false: it is not 16 bytes in base64. */
bool websocket_accept(const char *key, char out[static WEBSOCKET_ACCEPT_SIZE]);
