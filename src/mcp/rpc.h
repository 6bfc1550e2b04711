/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of JSON-RPC 2.0, one on each line. The other end is a program of the user's that an agent drives, so the bytes are taken for
 * hostile: lines have a ceiling, nesting has one, and whatever is wrong becomes an answer with an error. Pure: bytes in, messages out.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"

enum {
    RPC_LINE_MAX = 8 * 1024 * 1024, /* a longer line is dropped, with an answer */
    RPC_DEPTH_MAX = 64,
    RPC_BATCH_MAX = 64,
    RPC_METHOD_MAX = 128,
    RPC_ID_MAX = 256 /* bytes of an id that is a string */
};

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_BUSY = -32000 /* ours: too many calls at once */
};

/* One request or notification, borrowed for the call. */
struct rpc_message {
    const json_t *id; /* a string or a number; NULL: a notification */
    const char *method;
    const json_t *params; /* an object; NULL: none */
};

struct rpc_reader {
    struct buf line; /* what has come of the next one */
    bool skipping;   /* it is too long: its rest is dropped */
    void (*message)(void *arg, const struct rpc_message *m);
    /* id: NULL if it could not be read, which JSON-RPC writes as null. */
    void (*refuse)(void *arg, const json_t *id, enum rpc_code code, const char *why);
    void *arg;
};
#define RPC_READER_INIT \
    { .line = BUF_INIT(RPC_LINE_MAX) }
void rpc_reader_done(struct rpc_reader *r);

/* Any part of the stream; calls back for each line that ends in it. Answers of the other end to us are dropped: we ask nothing. */
void rpc_feed(struct rpc_reader *r, const char *data, size_t len);

/* -- writing ------------------------------------------------------------------------------------------------------------- */

/* {"jsonrpc":"2.0","id":ID,"result": or the member that the caller goes on with; id NULL: null. */
void rpc_begin_answer(struct buf *out, const json_t *id, const char *member);
void rpc_add_error(struct buf *out, const json_t *id, enum rpc_code code, const char *why); /* a whole line */
/* Any bytes as a JSON string: what is no UTF-8 becomes U+FFFD. Never a line feed, so a message stays on its line. */
void rpc_add_text(struct buf *out, const char *data, size_t len);
