/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http/httpx.h"

#include <errno.h>

#include "gateway/http/httpx_priv.h"

enum { QUEUE_SLACK = 64 * 1024 };

void http_queue_init(struct http_queue *q) {
    *q = (struct http_queue){.b = BUF_INIT(HTTPX_QUEUE_MAX)};
}

static void zero_secret(struct http_queue *q, size_t to) {
    if (q->secret > q->off)
        explicit_bzero(q->b.data + q->off, MIN_OF(to, q->secret) - q->off);
    if (q->secret <= to)
        q->secret = 0;
}

void http_queue_done(struct http_queue *q) {
    if (q->secret)
        zero_secret(q, q->b.len);
    buf_done(&q->b);
    q->off = 0;
}

/* As realloc(), which would leave a copy of the old bytes behind. */
static void grow(struct http_queue *q, size_t more) {
    struct buf *b = &q->b;
    size_t cap = MAX_OF(b->cap * 2, b->len + more + 1);
    char *grown;

    if (b->failed || more > b->ceiling || b->len > b->ceiling - more)
        return; /* the first buf_add() fails then */
    grown = malloc(cap);
    if (!grown) {
        b->failed = true;
        return;
    }
    if (b->data) {
        memcpy(grown, b->data, b->len + 1);
        explicit_bzero(b->data, b->len);
        free(b->data);
    }
    b->data = grown;
    b->cap = cap;
}

static void close_up(struct http_queue *q) {
    size_t len = q->b.len;

    q->b.len -= q->off;
    memmove(q->b.data, q->b.data + q->off, q->b.len);
    if (q->secret) {
        explicit_bzero(q->b.data + q->b.len, len - q->b.len);
        q->secret -= q->off;
    }
    q->off = 0;
}

struct buf *http_queue_secret_buf(struct http_queue *q, size_t more) {
    if (q->off >= QUEUE_SLACK)
        close_up(q);
    if (q->b.len + more + 1 > q->b.cap)
        grow(q, more);
    return &q->b;
}

struct buf *http_queue_buf(struct http_queue *q, size_t more) {
    if (q->secret)
        return http_queue_secret_buf(q, more);
    if (q->off >= QUEUE_SLACK)
        close_up(q);
    return &q->b;
}

void http_queue_add(struct http_queue *q, const void *data, size_t len) {
    if (len)
        buf_add(http_queue_buf(q, len), data, len);
}

/* A large buffer is not kept for a connection that may be idle for hours. */
void http_queue_drop(struct http_queue *q, size_t n) {
    size_t to = q->off + MIN_OF(n, http_queue_len(q));

    if (q->secret)
        zero_secret(q, to);
    q->off = to;
    if (q->off < q->b.len)
        return;
    q->off = 0;
    if (q->b.cap > QUEUE_SLACK)
        buf_done(&q->b);
    else
        q->b.len = 0;
}

static void format_authority(struct httpx *x) {
    bool v6 = x->host.kind == HOST_IPV6;
    int n = snprintf(x->authority, sizeof x->authority, "%s%s%s", v6 ? "[" : "", x->host.text, v6 ? "]" : "");

    if (x->opts.port != (x->opts.tls ? 443 : 80))
        snprintf(x->authority + n, sizeof x->authority - (size_t)n, ":%u", x->opts.port);
}

void httpx_init(struct httpx *x, const struct httpx_ops *ops, const struct httpx_opts *opts) {
    x->ops = ops;
    x->opts = *opts;
    x->host = *opts->host;
    x->opts.host = &x->host;
    format_authority(x);
    http_queue_init(&x->out[0]);
    http_queue_init(&x->out[1]);
}

void httpx_done(struct httpx *x) {
    http_queue_done(&x->out[0]);
    http_queue_done(&x->out[1]);
}

int httpx_new(const struct httpx_opts *opts, struct httpx **ret) {
    struct httpx *x = opts->kind == HTTPX_H2 ? h2_new(opts) : h1_new(opts);

    if (!x)
        return -ENOMEM;
    *ret = x;
    return 0;
}

void httpx_free(struct httpx *x) {
    if (x)
        x->ops->free(x);
}

int httpx_data(struct httpx *x, enum httpx_way way, const uint8_t *data, size_t len) {
    int r = x->ops->data(x, way, data, len);

    return r < 0 || (buf_ok(&x->out[0].b) && buf_ok(&x->out[1].b)) ? r : -ENOMEM;
}

void httpx_eof(struct httpx *x, enum httpx_way way) {
    x->ops->eof(x, way);
}

bool httpx_wants(const struct httpx *x, enum httpx_way way) {
    return x->ops->wants(x, way);
}

size_t httpx_out(struct httpx *x, enum httpx_way way, const uint8_t **ret) {
    if (x->ops->fill)
        x->ops->fill(x, way);
    *ret = http_queue_bytes(&x->out[way]);
    return http_queue_len(&x->out[way]);
}

void httpx_wrote(struct httpx *x, enum httpx_way way, size_t n) {
    http_queue_drop(&x->out[way], n);
    if (x->ops->wrote)
        x->ops->wrote(x, way);
}

void httpx_decide(struct httpx *x, uint32_t id, const struct policy_verdict *v) {
    x->ops->decide(x, id, v);
}

struct http_head *httpx_head(struct httpx *x, uint32_t id) {
    return x->ops->head(x, id);
}

int httpx_set_query(struct httpx *x, uint32_t id, const char *query) {
    if (!httpx_check_query(query, strlen(query)) || (query[0] && query[0] != '?'))
        return -EINVAL;
    return x->ops->set_query(x, id, query);
}

void httpx_answer(struct httpx *x, uint32_t id, int status, const char *content_type, const void *body, size_t len) {
    x->ops->answer(x, id, &(struct httpx_reply){.status = status, .type = content_type, .body = body, .len = len});
}

bool httpx_pause(struct httpx *x) {
    return x->opts.hooks.pause && x->ops->pause(x);
}

bool httpx_finished(const struct httpx *x, enum httpx_way way) {
    return x->finished[way];
}

bool httpx_busy(const struct httpx *x) {
    return x->ops->busy(x);
}

uint64_t httpx_judged(const struct httpx *x) {
    return x->judged;
}

bool httpx_is_answering(const struct httpx *x) {
    return x->answering;
}
