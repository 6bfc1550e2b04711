/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a message ends in an answer that comes bit by bit, so that its reader need not wait for the tail (cover.h): the blank line of
 * Server-Sent Events, the line of what is JSON in lines (a string of JSON has no line end in it, so no value is cut there), the message
 * of gRPC, that of a WebSocket. What is in the messages plays no part in it.
 */
#pragma once

#include "gateway/secret/cover.h"

enum cover_ends_kind { ENDS_NONE, ENDS_EVENT, ENDS_LINE, ENDS_GRPC };

struct cover_ends {
    enum cover_ends_kind kind;
    bool in_line;  /* EVENT: the line has something in it */
    bool after_cr; /* EVENT: a LF would belong to it */
    bool ended;    /* EVENT: with the last byte */
    uint8_t have;  /* GRPC: bytes of the head of a message */
    uint32_t left; /* GRPC: bytes of its body */
};
/* By Content-Type; NULL: none. */
void cover_ends_init(struct cover_ends *e, const char *type);
/* How many bytes of the piece belong to messages that end in it, for cover_pass(); COVER_HOLD: none ends. */
size_t cover_ends_take(struct cover_ends *e, const uint8_t *data, size_t len);

enum { WS_HEAD_MAX = 14, WS_CONTROL_MAX = 125 };

/* A WebSocket's bytes to the client. The frames are written anew: their sizes are those in which bytes come out of cover_pass(). */
struct cover_ws {
    uint8_t head[WS_HEAD_MAX], control[WS_CONTROL_MAX];
    uint8_t have; /* of head, and then of control */
    bool in_frame;
    uint64_t left;  /* of the frame */
    uint8_t opcode; /* of the message: for its first frame; 0: that has gone */
    bool open;      /* within a message */
};
/* -EPROTO: no WebSocket, or a compressed one, which cannot be searched. -ENOMEM */
int cover_ws_pass(struct cover *c, struct cover_stream *s, struct cover_ws *w, const uint8_t *data, size_t len, struct buf *out);
/* By the clock, and at the end: all that is held. */
int cover_ws_flush(struct cover *c, struct cover_stream *s, struct cover_ws *w, struct buf *out);
