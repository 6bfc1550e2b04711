/* SPDX-License-Identifier: Apache-2.0 */
/* What HTTP/1 (h1.h) and HTTP/2 (h2.h) share: queues of bytes that wait to be written, checks of requests, refusals. */
#pragma once

#include "base/buf.h"
#include "gateway/http/http_head.h"
#include "gateway/http/refuse.h"

/* Bytes in at the end, out at the front. */
struct http_queue {
    struct buf b;
    size_t off;    /* bytes of b that are gone */
    size_t secret; /* before here in b are secret bytes: zeroed as they go, never left behind by realloc(); 0: none */
};

enum {
    HTTPX_QUEUE_MAX = 8 * 1024 * 1024, /* whatever happens: past HTTPX_BUFFER no more input is taken, past this it fails */
    HTTPX_DISCARD_MAX = 64 * 1024,     /* of the body of a refused request: more is not worth keeping the connection */
    HTTPX_METHOD_MAX = 32,
    HTTPX_AUTHORITY_MAX = HOST_TEXT_MAX + 16
};

static inline size_t http_queue_len(const struct http_queue *q) {
    return q->b.len - q->off;
}
static inline const uint8_t *http_queue_bytes(const struct http_queue *q) {
    return (const uint8_t *)buf_str(&q->b) + q->off;
}
void http_queue_init(struct http_queue *q);
void http_queue_done(struct http_queue *q);
void http_queue_add(struct http_queue *q, const void *data, size_t len);
void http_queue_drop(struct http_queue *q, size_t n);
/* For writing text of up to so many bytes: makes room at the front first. */
struct buf *http_queue_buf(struct http_queue *q, size_t more);
/* The same for secret bytes; http_queue_secret_end() follows. */
struct buf *http_queue_secret_buf(struct http_queue *q, size_t more);
static inline void http_queue_secret_end(struct http_queue *q) {
    q->secret = q->b.len;
}

struct httpx_ops {
    int (*data)(struct httpx *x, enum httpx_way way, const uint8_t *data, size_t len);
    void (*eof)(struct httpx *x, enum httpx_way way);
    bool (*wants)(const struct httpx *x, enum httpx_way way);
    void (*fill)(struct httpx *x, enum httpx_way way);  /* out[way] before it is written; may be NULL */
    void (*wrote)(struct httpx *x, enum httpx_way way); /* there is room again; may be NULL */
    void (*decide)(struct httpx *x, uint32_t id, const struct policy_verdict *v);
    struct http_head *(*head)(struct httpx *x, uint32_t id);
    int (*set_query)(struct httpx *x, uint32_t id, const char *query);
    void (*answer)(struct httpx *x, uint32_t id, const struct httpx_reply *reply);
    bool (*pause)(struct httpx *x);
    bool (*busy)(const struct httpx *x);
    void (*free)(struct httpx *x);
};

struct httpx {
    const struct httpx_ops *ops;
    struct httpx_opts opts;
    struct host host;
    char authority[HTTPX_AUTHORITY_MAX]; /* as it is sent to the server */
    struct http_queue out[2];
    bool finished[2];
    uint64_t judged;           /* requests */
    bool answering;            /* since the last of them: an answer has begun */
    struct httpx_request req;  /* the one that is judged: 16 KB, so there is one per connection */
    struct policy_verdict why; /* of the last hook that refused; 1.5 KB that are not cleared for each piece of a body */
};

void httpx_init(struct httpx *x, const struct httpx_ops *ops, const struct httpx_opts *opts);
void httpx_done(struct httpx *x);

struct httpx *h1_new(const struct httpx_opts *opts); /* NULL: no memory */
struct httpx *h2_new(const struct httpx_opts *opts);

/* A request that is not even asked about. */
struct httpx_refusal {
    int status; /* 0: none */
    enum policy_code code;
    char why[200];
};
/* Each sets *ret and returns false if the request must be refused. */
bool httpx_refuse(struct httpx_refusal *ret, int status, enum policy_code code, const char *why);
bool httpx_check_method(const char *method, struct httpx_refusal *ret);
bool httpx_check_authority(const struct httpx *x, const char *text, size_t len, struct httpx_refusal *ret);
/* "/path?query": fills path and *ret_query, which points into target. */
bool httpx_check_target(const char *method, const char *target, size_t len, struct http_path *path, const char **ret_query,
                        struct httpx_refusal *ret);

bool httpx_check_query(const char *query, size_t len);
/* For a body that is collected. */
bool httpx_check_collect(uint64_t len, struct httpx_refusal *ret);

/* Asks hooks.judge() about x->req. */
enum httpx_answer httpx_judge(struct httpx *x, struct policy_verdict *ret);
/* Makes the verdict of a refusal, tells the hook, gives the status. */
int httpx_note_refusal(struct httpx *x, uint32_t id, const char *method, const char *path, const struct httpx_refusal *why,
                       struct policy_verdict *ret);
void httpx_note_answer(struct httpx *x, uint32_t id, int status);
void httpx_note_end(struct httpx *x, uint32_t id);
/* The hooks of httpx.h; true if there is none, false with x->why. Trailers of a request are given as text. */
bool httpx_sending(struct httpx *x, uint32_t id, const void *data, size_t len, bool end);
bool httpx_sending_end(struct httpx *x, uint32_t id, const struct http_head *trailers);
bool httpx_answer_head(struct httpx *x, uint32_t id, int status, struct http_head *head);
/* JSON is the client's first wish. */
bool httpx_wants_json(const struct http_head *h);
/* Does the client wait for "100 Continue" before it sends the body? */
bool httpx_waits_for_100(const struct http_head *h);
/* A body that a rule limits: is n more than it allows? */
static inline bool httpx_too_large(const struct policy_verdict *v, uint64_t n) {
    return v->max_body && n > v->max_body;
}
