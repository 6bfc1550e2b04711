/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP through the gate: one connection from a client, one to a server, both HTTP/1.1 or both HTTP/2. No input or output
 * here: bytes come in, bytes go out, so that tests and fuzzers drive it as the loop does (inspect.c).
 *
 *     httpx_data(HTTPX_TO_SERVER)  ->  parsed strictly, each request judged by a hook  ->  httpx_out(HTTPX_TO_SERVER)
 *     httpx_data(HTTPX_TO_CLIENT)  ->  parsed, same framing                            ->  httpx_out(HTTPX_TO_CLIENT)
 *
 * Should: send on exactly the request that was judged (method, authority, normalised path plus the query as it came, checked
 * headers), written anew, never the bytes that came; stream bodies, trailers, 100-continue, Server-Sent Events, WebSocket
 * (Upgrade: after 101 bytes pass), CONNECT of HTTP/2 extended for WebSocket (RFC 8441) may be refused; answer refused
 * requests itself (refuse.h) and keep the connection where the protocol allows it; keep memory within HTTPX_BUFFER per
 * direction by refusing input (httpx_wants()).
 * Mustn't: let two readings of a request exist (ATTACKS 54): Content-Length with Transfer-Encoding, two different
 * Content-Lengths, obs-fold, bare LF, bare CR, NUL, bad chunk, space before colon, unknown transfer coding, HTTP/0.9,
 * absolute URI or :authority that is not the connection's name (421), request after "Connection: close", body with TRACE;
 * pass TRACE, h2c Upgrade, HTTP2-Settings, a pseudo-header in a wrong place, connection headers in HTTP/2, or hop-by-hop
 * headers.
 */
#pragma once

#include "policy/rules/verdict.h"

enum {
    HTTPX_HEAD_MAX = 64 * 1024, /* all header bytes of one message */
    HTTPX_HEADERS_MAX = 200,
    HTTPX_URI_MAX = 16 * 1024,
    HTTPX_BUFFER = 256 * 1024,          /* bytes waiting in one direction; no more input is taken then */
    HTTPX_STREAMS_MAX = 128,            /* HTTP/2: requests at once */
    HTTPX_COLLECT_MAX = 4 * 1024 * 1024 /* the body of a request that has to be seen whole before it goes on */
};

enum httpx_kind { HTTPX_H1, HTTPX_H2 };
enum httpx_way { HTTPX_TO_CLIENT, HTTPX_TO_SERVER };
/* COLLECT: as WAIT, but the body is taken in meanwhile, and hooks.collected() is called when it is whole. */
enum httpx_answer { HTTPX_ALLOW, HTTPX_DENY, HTTPX_WAIT, HTTPX_COLLECT };

struct http_header {
    char *name, *value; /* name in small letters for HTTP/2, as it came for HTTP/1 */
    size_t name_len, value_len;
    uint8_t known; /* enum http_name (http_head.h) */
    bool secret;   /* http_head_set_secret() */
};

/* What a hook sees. It may change, add and remove headers (http_head_*): that is how credentials are put in. */
struct httpx_request {
    uint32_t id; /* of this connection: 1, 2, ... (HTTP/2: the stream) */
    const char *method;
    struct http_path path;
    const char *query; /* with its '?'; "" if there is none */
    struct http_head *head;
    bool has_body;
    uint64_t body_len; /* if declared; else UINT64_MAX for chunked or HTTP/2 without content-length */
    bool upgrade;      /* asks for WebSocket */
    bool covered;      /* set by the hook: the answer may have a secret in it, in any place */
};

struct http_head {
    struct http_header *v;
    size_t len, cap;
    struct http_block *blocks;  /* bytes of names and values, but for those in the caller's memory */
    struct http_block *secrets; /* values that are zeroed when they go */
};
const char *http_head_get(const struct http_head *h, const char *name); /* the first; NULL */
/* Replaces all of this name. -EINVAL: bytes that no header may have (a line break in a credential: CWE-113). -E2BIG, -ENOMEM */
int http_head_set(struct http_head *h, const char *name, const char *value, size_t len);
/* The same for a value that is secret: HTTP/2 never keeps it in a table, and its bytes are zeroed as soon as the head was
 * written. */
int http_head_set_secret(struct http_head *h, const char *name, const char *value, size_t len);
void http_head_remove(struct http_head *h, const char *name);

/* Called from within the functions below; none of them may call httpx_free(). */
struct httpx_hooks {
    void *arg;
    /* HTTPX_ALLOW: ret->max_body counts. HTTPX_DENY: *ret says why. HTTPX_WAIT: httpx_decide() follows. */
    enum httpx_answer (*judge)(void *arg, struct httpx_request *req, struct policy_verdict *ret);
    /* A refusal that was found here (bad request, 421, TRACE, too large): for the log. May be NULL. */
    void (*refused)(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why, int status);
    /* The answer's head came from the server, or was made by us; 0: there is none (HTTP/2: the stream was reset). May be
     * NULL. */
    void (*answered)(void *arg, uint32_t id, int status);
    /* HTTPX_COLLECT: the body of the request is here, all of it (a larger one than HTTPX_COLLECT_MAX was refused with 413).
     * httpx_decide() or httpx_answer() follows, from within or later; the bytes go on then. */
    void (*collected)(void *arg, uint32_t id, const uint8_t *body, size_t len);
    /* Bytes of a request's body as they come, also of one that waits or is collected, and of the tunnel after 101; end:
     * there are no more (len may be 0; not called for requests without a body). Also trailers, as "name: value\r\n", with
     * the end. false: *ret says why the request is refused, and refused() is not called; what went on so far never becomes a
     * whole request. May be NULL. */
    bool (*sending)(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct policy_verdict *ret);
    /* The head of the server's answer (also of 1xx), or its trailers (status 0, behind the last receiving()), before it goes
     * on: fields may be changed. false: the client gets a 502 with *ret, or where an answer has begun already, no end of
     * it; refused() is not called. May be NULL. */
    bool (*answer_head)(void *arg, uint32_t id, int status, struct http_head *head, struct policy_verdict *ret);
    /* Bytes of an answer's body (or, after 101, of the tunnel to the client): puts into out what goes on. It may keep some
     * back until more come; at the end all. As many bytes go out as came in. Not called for answers of our own, nor for those without a body. If it fails it marks out as failed: the connection ends. May be
     * NULL: everything goes on as it is. */
    void (*receiving)(void *arg, uint32_t id, const uint8_t *data, size_t len, bool end, struct buf *out);
    /* The clock, after httpx_pause(): puts into out what receiving() keeps back of this answer, if no byte of it came since the last
     * time. True: there is still something. May be NULL. */
    bool (*pause)(void *arg, uint32_t id, struct buf *out);
    /* A request that was judged, and its answer, are through; not called for those that are open when the connection ends.
     * May be NULL. */
    void (*ended)(void *arg, uint32_t id);
};

struct httpx_opts {
    enum httpx_kind kind;
    const struct host *host; /* the name of the connection: Host and :authority must be it */
    uint16_t port;
    bool tls;
    bool proxied;        /* HTTP/1 with absolute URIs on the explicit proxy port: one request, then the connection is closed */
    bool once;           /* HTTP/1: the connection ends after one answer */
    const char *trouble; /* why no request can be served: each is answered with it. NULL: they are judged. Not copied */
    struct httpx_hooks hooks;
};

struct httpx;
struct buf;

int httpx_new(const struct httpx_opts *opts, struct httpx **ret);
void httpx_free(struct httpx *x);

/* Takes all bytes, or fails: -EPROTO (what has to be said to the peers waits in httpx_out(); close after it), -ENOMEM. */
/* way: where they go. TO_SERVER: from the client. */
int httpx_data(struct httpx *x, enum httpx_way way, const uint8_t *data, size_t len);
void httpx_eof(struct httpx *x, enum httpx_way way);         /* that source will send no more */
bool httpx_wants(const struct httpx *x, enum httpx_way way); /* more bytes that go this way can be taken */
/* Bytes to be written; httpx_wrote() takes the first n of them away. Either way may have some after any call, also after
 * httpx_wrote() of the other way: HTTP/2 opens a sender's window when bytes are passed on. */
size_t httpx_out(struct httpx *x, enum httpx_way way, const uint8_t **ret);
void httpx_wrote(struct httpx *x, enum httpx_way way, size_t n);
/* The decision about a request that waits. */
void httpx_decide(struct httpx *x, uint32_t id, const struct policy_verdict *v);
/* For requests that wait, until httpx_decide(): the fields, to be changed; NULL: the request is gone. */
struct http_head *httpx_head(struct httpx *x, uint32_t id);
/* The query with its '?', or "". It is secret: as http_head_set_secret(). -ENOENT, -EINVAL, -ENOMEM */
int httpx_set_query(struct httpx *x, uint32_t id, const char *query);
/* An answer of our own to a request that waits, in place of httpx_decide(). */
void httpx_answer(struct httpx *x, uint32_t id, int status, const char *content_type, const void *body, size_t len);
/* To be called every now and then while answers come: hooks.pause(). False: need not be called before there are new bytes. */
bool httpx_pause(struct httpx *x);
/* Nothing more will be written that way: shut it down when httpx_out() is empty. */
bool httpx_finished(const struct httpx *x, enum httpx_way way);
/* True while requests are open (for idle timeouts). */
bool httpx_busy(const struct httpx *x);
uint64_t httpx_judged(const struct httpx *x);   /* how many requests were judged so far */
bool httpx_is_answering(const struct httpx *x); /* HTTP/1: the head of the answer to the last of them is out */
