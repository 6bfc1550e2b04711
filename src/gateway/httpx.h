/*
 * HTTP through the gate: one connection from a client, one to a server, both HTTP/1.1 or both HTTP/2. No input or output
 * here: bytes come in, bytes go out, so that tests and fuzzers drive it as the loop does (inspect.c).
 *
 *     httpx_data(HTTPX_TO_SERVER)  ->  parsed strictly, each request judged by a hook  ->  httpx_out(HTTPX_TO_SERVER)
 *     httpx_data(HTTPX_TO_CLIENT)  ->  parsed, framing kept                            ->  httpx_out(HTTPX_TO_CLIENT)
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

#include "policy/verdict.h"

enum {
    HTTPX_HEAD_MAX = 64 * 1024, /* all header bytes of one message */
    HTTPX_HEADERS_MAX = 200,
    HTTPX_URI_MAX = 16 * 1024,
    HTTPX_BUFFER = 256 * 1024, /* bytes waiting in one direction; more input is not wanted then */
    HTTPX_STREAMS_MAX = 128    /* HTTP/2: requests at once */
};

enum httpx_kind { HTTPX_H1, HTTPX_H2 };
enum httpx_way { HTTPX_TO_CLIENT, HTTPX_TO_SERVER };
enum httpx_answer { HTTPX_ALLOW, HTTPX_DENY, HTTPX_WAIT };

struct http_header {
    char *name, *value; /* name in small letters for HTTP/2, as it came for HTTP/1 */
    size_t name_len, value_len;
    uint8_t known; /* enum http_name (http_head.h) */
};

/* What a hook sees. It may change, add and remove headers (http_head_*): that is how credentials will be put in. */
struct httpx_request {
    uint32_t id; /* of this connection: 1, 2, ... (HTTP/2: the stream) */
    const char *method;
    struct http_path path;
    const char *query; /* with its '?'; "" if there is none */
    struct http_head *head;
    bool has_body;
    uint64_t body_len; /* if declared; else UINT64_MAX for chunked or HTTP/2 without content-length */
    bool upgrade;      /* asks for WebSocket */
};

struct http_head {
    struct http_header *v;
    size_t len, cap;
    struct http_block *blocks; /* bytes of names and values, but for those that stand in the caller's memory */
};
const char *http_head_get(const struct http_head *h, const char *name); /* the first; NULL */
/* Replaces all of this name. -EINVAL: bytes that no header may have (a line break in a credential: CWE-113). -ENOMEM */
int http_head_set(struct http_head *h, const char *name, const char *value, size_t len);
void http_head_remove(struct http_head *h, const char *name);

/* Called from within the functions below; none of them may call httpx_free(). */
struct httpx_hooks {
    void *arg;
    /* HTTPX_ALLOW: ret->max_body counts. HTTPX_DENY: *ret says why. HTTPX_WAIT: httpx_decide() follows. */
    enum httpx_answer (*judge)(void *arg, struct httpx_request *req, struct policy_verdict *ret);
    /* A refusal that was found here (bad request, 421, TRACE, too large): for the log. May be NULL. */
    void (*refused)(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why, int status);
    /* The answer's head came from the server, or was made by us; 0: there is none (HTTP/2: the stream was reset). May be NULL. */
    void (*answered)(void *arg, uint32_t id, int status);
    /* A request that was judged, and its answer, are through; not called for those that are open when the connection ends. May be NULL. */
    void (*ended)(void *arg, uint32_t id);
};

struct httpx_opts {
    enum httpx_kind kind;
    const struct host *host; /* the name of the connection: Host and :authority must be it */
    uint16_t port;
    bool tls;
    bool proxied; /* HTTP/1 with absolute URIs on the explicit proxy port: one request, then the connection is closed */
    struct httpx_hooks hooks;
};

struct httpx;

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
/* Nothing more will be written that way: shut it down when httpx_out() is empty. */
bool httpx_finished(const struct httpx *x, enum httpx_way way);
/* True while requests are open (for idle timeouts). */
bool httpx_busy(const struct httpx *x);
