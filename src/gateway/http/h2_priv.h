/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 between one client and one server.
 *
 * Theory of operation. Two nghttp2 sessions: one is a server to the client, one a client to the server. A stream of the first
 * has at most one stream of the second (struct h2_stream), made when the request is allowed. Each way of a stream is a pipe:
 * bytes of DATA wait in it until the other session has room for them, and only then the sender's window opens again, so what
 * waits never is more than H2_WINDOW for a connection, and a slow reader slows its sender, not the gate. Bytes that a hook keeps
 * back, or that are collected, count as passed on.
 *
 * nghttp2 checks frames and messages (pseudo-headers, connection headers, Content-Length against DATA); SETTINGS and PING
 * stay between neighbours; there is no push and no extended CONNECT. A stream's memory goes when both sessions have closed
 * it.
 */
#pragma once

#include <nghttp2/nghttp2.h>

#include "gateway/http/httpx_priv.h"

enum {
    H2_STREAM_WINDOW = HTTPX_BUFFER,
    H2_WINDOW = 4 * HTTPX_BUFFER,            /* one reader that stands still must not stop the other streams */
    H2_STREAMS_KEPT = 4 * HTTPX_STREAMS_MAX, /* also those that were reset and wait in a queue */
    H2_RESETS_MAX = 200,                     /* more than answers: CVE-2023-44487 */
    H2_LEFTOVER_MAX = 16 * 1024 * 1024,      /* see h2_leftover() */
    H2_COLLECT_MAX = 4 * HTTPX_COLLECT_MAX,  /* bodies that are collected at once, all together */
    H2_FILL = 64 * 1024
};

enum h2_state { H2_HEAD, H2_WAIT, H2_OPEN, H2_REFUSED };

enum h2_pseudo { H2_METHOD, H2_SCHEME, H2_AUTHORITY, H2_PATH, H2_STATUS, H2_PSEUDOS };

struct h2_pipe {
    struct http_head head, trailers;
    size_t head_bytes;        /* of both */
    char *pseudo[H2_PSEUDOS]; /* in the memory of head */
    bool in_trailers, has_trailers, too_large;
    struct http_queue body;
    size_t credit; /* of the bytes in body, so many hold the sender's window */
    bool eof;      /* nothing more will come into body */
    bool started;  /* the other session has the head */
    bool deferred; /* and asked for DATA when there was none */
    bool ended;    /* and has sent the end */
    bool dead;     /* nobody wants the bytes any more */
};

struct h2_stream {
    struct h2_stream *next, *prev;
    enum h2_state state;
    bool judged, answered;
    int32_t id[2]; /* by session; 0: not there (yet) */
    bool closed[2];
    struct h2_pipe pipe[2]; /* by the way of the bytes */
    struct httpx_refusal why;
    struct policy_verdict *verdict; /* of a rule with a limit; else NULL */
    uint64_t sent;                  /* bytes of the request's body */
    uint64_t length;                /* of the request's body, as declared; UINT64_MAX: not at all */
    uint64_t passed;                /* bytes of it that went on */
    bool collecting;                /* HTTPX_COLLECT, and not decided */
    bool telling;                   /* the head with a secret is not written yet */
    char *target;                   /* :path with a secret query, in the memory of the head; NULL: pseudo[H2_PATH] is it */
    uint32_t reset;                 /* by the server; for the client when the answer is through */
    size_t leftover;                /* bytes of the request that came behind the answer */
};

struct h2 {
    struct httpx x;
    nghttp2_session *session[2]; /* by the way of what they write: HTTPX_TO_CLIENT is the server to the client */
    struct h2_stream *streams;
    size_t n_streams;
    int resets_left;
    size_t collected; /* bytes of all bodies that are being collected */
    size_t
        telling; /* streams whose head with a secret is not written yet: what the session writes meanwhile is zeroed behind it */
    bool server_gone; /* its session is not used any more */
    bool failed;
};

static inline struct h2 *h2_of(struct httpx *x) {
    return (struct h2 *)x;
}
static inline enum httpx_way h2_other(enum httpx_way way) {
    return way == HTTPX_TO_CLIENT ? HTTPX_TO_SERVER : HTTPX_TO_CLIENT;
}

/* h2_session.c */
int h2_sessions_new(struct h2 *h);

/* h2_stream.c */
struct h2_stream *h2_stream_new(struct h2 *h, int32_t id);
void h2_stream_free(struct h2 *h, struct h2_stream *s);
void h2_reset(struct h2 *h, struct h2_stream *s, enum httpx_way session, uint32_t code);
void h2_stream_closed(struct h2 *h, struct h2_stream *s, enum httpx_way session, uint32_t code);
/* New bytes, the end or trailers are in the pipe. */
void h2_pipe_resume(struct h2 *h, struct h2_stream *s, enum httpx_way way);
/* Throws away what is in the pipe, now and later. */
void h2_pipe_kill(struct h2 *h, struct h2_stream *s, enum httpx_way way);
/* Bytes that the hook made of len bytes were put into the pipe, or none were. */
void h2_pipe_filled(struct h2 *h, struct h2_stream *s, enum httpx_way way, size_t len);
ssize_t h2_pipe_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t len, uint32_t *flags, nghttp2_data_source *source,
                     void *arg);
/*
 * Bytes of a request that nobody reads any more. Behind a whole answer they are thrown away, up to a limit, before the client is told to
 * stop: curl 7.88 and others lose an answer (a 403 that says why, a 413) when a reset comes while they still send.
 */
void h2_leftover(struct h2 *h, struct h2_stream *s, size_t len);
/* The end of a message was written to a peer. */
void h2_pipe_ended(struct h2 *h, struct h2_stream *s, enum httpx_way way);

struct h2_fields {
    nghttp2_nv v[HTTPX_HEADERS_MAX + 32];
    size_t len;
};
void h2_fields_add(struct h2_fields *f, const char *name, const char *value);
/* The value is not copied: it stays until the head was written. */
void h2_fields_add_secret(struct h2_fields *f, const char *name, const char *value);
void h2_fields_add_head(struct h2_fields *f, const struct http_head *head);

/* h2_answer.c: an answer of our own. status 0: that of the verdict. */
void h2_reply(struct h2 *h, struct h2_stream *s, const struct httpx_reply *reply);
void h2_refuse(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v, int status);
void h2_refuse_for(struct h2 *h, struct h2_stream *s, const struct httpx_refusal *why);
/* The same for a request that is under way. */
void h2_stop(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v, int status);
void h2_stop_for(struct h2 *h, struct h2_stream *s, const struct httpx_refusal *why);
void h2_note_answer(struct h2 *h, struct h2_stream *s, int status);

/* h2_request.c, h2_answer.c: a head is whole; end: there is no body. */
void h2_request(struct h2 *h, struct h2_stream *s, bool end);
void h2_request_decide(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v);
void h2_request_bytes(struct h2 *h, struct h2_stream *s, const uint8_t *data, size_t len);
void h2_request_end(struct h2 *h, struct h2_stream *s);
/* Secrets that were put into the request: the server has them, or never will. */
void h2_request_forget(struct h2 *h, struct h2_stream *s);
void h2_response(struct h2 *h, struct h2_stream *s, bool end);
void h2_response_bytes(struct h2 *h, struct h2_stream *s, const uint8_t *data, size_t len);
void h2_response_end(struct h2 *h, struct h2_stream *s);
bool h2_response_held(struct h2 *h, struct h2_stream *s); /* hooks.pause() */
