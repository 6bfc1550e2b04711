/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 between one client and one server.
 *
 * Theory of operation. Each way has a side: bytes that came but cannot be used yet, a head that is being read, a body that is
 * being passed on, and a state. One request at a time: what a client sends behind a request waits until the answer is
 * through, so answers come in order and an answer always has its request.
 *
 *     client   HEAD -> (WAIT) -> BODY -> DONE -> HEAD         DROP: the body of a refused request
 *              HEAD -> COLLECT -> WAIT -> DONE                the body waits for the decision
 *     server   IDLE -> HEAD -> BODY -> DONE -> IDLE           bytes while IDLE: an answer to nothing; the connection ends
 *     both     TUNNEL after 101; END: whatever still comes is thrown away
 */
#pragma once

#include "gateway/http/h1_head.h"

enum h1_state { H1_IDLE, H1_HEAD, H1_WAIT, H1_COLLECT, H1_BODY, H1_DROP, H1_DONE, H1_TUNNEL, H1_END };
enum h1_body { H1_NO_BODY, H1_LENGTH, H1_CHUNKED, H1_UNTIL_EOF };

enum h1_chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILERS,
    CHUNK_END
};

struct h1_chunk {
    enum h1_chunk_state state;
    unsigned digits;  /* of the size */
    size_t extension; /* bytes of it */
    uint64_t left;    /* of this chunk */
};

struct h1_side {
    enum h1_state state;
    struct http_queue waiting;
    bool eof; /* no more bytes will come */
    struct h1_head head, trailers;
    enum h1_body body;
    uint64_t left; /* of a body with length */
    struct h1_chunk chunk;
    bool write_chunked;
    bool counted;  /* the client knows the length: */
    uint64_t owed; /* so many bytes are to follow */
};

struct h1 {
    struct httpx x;
    struct h1_side side[2]; /* by the way of the bytes: HTTPX_TO_SERVER is the client's */
    uint32_t id;
    bool skipped;                        /* the one empty line that may come before a request */
    bool keep;                           /* the connection, after this exchange */
    bool head_only, upgrade, old_client; /* HEAD; asks for WebSocket; HTTP/1.0 */
    uint64_t sent;                       /* bytes of the request's body */
    bool judged;                         /* and not through */
    bool collecting, whole;              /* HTTPX_COLLECT; and the body is here */
    bool gave_secret;                    /* the server got a secret with this request, or may know one */
    bool running;                        /* bytes are being read: a decision that comes from within a hook does not read more */
    struct buf collected;
    struct buf piece; /* what hooks.receiving() gives */
    struct policy_verdict verdict;
};

static inline struct h1 *h1_of(struct httpx *x) {
    return (struct h1 *)x;
}

/* h1.c */
void h1_start_body(struct h1_side *s, enum h1_body body, uint64_t length);
void h1_end(struct h1 *h);
/* If both sides are through with the request: on to the next one, or the end. */
void h1_exchange_done(struct h1 *h);

/* h1_body.c: takes bytes of a body; *ret_used may be 0 if there is no room for them. */
int h1_take_body(struct h1 *h, enum httpx_way way, const char *p, size_t n, size_t *ret_used);
int h1_body_end(struct h1 *h, enum httpx_way way);
/* hooks.pause() */
bool h1_pass_held(struct h1 *h);
/* The same for a tunnel. */
void h1_take_tunnel(struct h1 *h, enum httpx_way way, const char *p, size_t n, size_t *ret_used);
void h1_tunnel_end(struct h1 *h, enum httpx_way way);
/* The body of the request is here; now it goes on. */
void h1_collected(struct h1 *h);
void h1_pass_collected(struct h1 *h);

/* h1_request.c */
int h1_take_request_head(struct h1 *h, const char *p, size_t n, size_t *ret_used);
void h1_allow(struct h1 *h);
/* Secrets that were put into the request. */
void h1_forget(struct h1 *h);

/* h1_answer.c: an answer of our own. status 0: that of the verdict. */
void h1_reply(struct h1 *h, const struct httpx_reply *reply);
void h1_refuse(struct h1 *h, const struct policy_verdict *v, int status);
void h1_refuse_for(struct h1 *h, const struct httpx_refusal *why);
/* What cannot be read. -EPROTO */
int h1_bad_request(struct h1 *h, const struct httpx_refusal *why);
void h1_too_large(struct h1 *h);
/* A hook refused the request while its body came. */
void h1_stop_request(struct h1 *h, const struct policy_verdict *v);
/* The server said what cannot be read, or left. -EPROTO */
int h1_bad_response(struct h1 *h, const char *why);
/* A hook refused the answer. -EPROTO */
int h1_stop_answer(struct h1 *h, const struct policy_verdict *v);

/* The server's. */
int h1_take_response_head(struct h1 *h, const char *p, size_t n, size_t *ret_used);
