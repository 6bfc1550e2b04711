/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 as httpx sees it. */
#include <errno.h>

#include "gateway/http/h2_priv.h"

static bool is_over(nghttp2_session *session) {
    return !nghttp2_session_want_read(session) && !nghttp2_session_want_write(session);
}

/* Everything that the server still owes is lost; the clients of these streams get an error. */
static void server_gone(struct h2 *h) {
    nghttp2_session *client = h->session[HTTPX_TO_CLIENT];
    struct h2_stream *next;

    if (h->server_gone)
        return;
    h->server_gone = h->x.finished[HTTPX_TO_SERVER] = true;
    for (struct h2_stream *s = h->streams; s; s = next) {
        next = s->next;
        if (s->state == H2_WAIT)
            h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_REFUSED_STREAM);
        if (!s->closed[HTTPX_TO_SERVER])
            h2_stream_closed(h, s, HTTPX_TO_SERVER, s->pipe[HTTPX_TO_CLIENT].eof ? NGHTTP2_NO_ERROR : NGHTTP2_INTERNAL_ERROR);
    }
    nghttp2_submit_goaway(client, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(client), NGHTTP2_NO_ERROR, NULL, 0);
}

static void client_gone(struct h2 *h) {
    if (h->x.finished[HTTPX_TO_CLIENT])
        return;
    h->x.finished[HTTPX_TO_CLIENT] = h->x.finished[HTTPX_TO_SERVER] = true;
    if (!h->server_gone)
        nghttp2_session_terminate_session(h->session[HTTPX_TO_SERVER], NGHTTP2_NO_ERROR);
}

static void settle_sessions(struct h2 *h) {
    if (!h->server_gone && is_over(h->session[HTTPX_TO_SERVER]))
        server_gone(h);
    if (is_over(h->session[HTTPX_TO_CLIENT]))
        client_gone(h);
}

static int h2_data(struct httpx *x, enum httpx_way way, const uint8_t *data, size_t len) {
    struct h2 *h = h2_of(x);
    nghttp2_session *from = h->session[h2_other(way)];
    ssize_t n;

    if (x->finished[h2_other(way)])
        return 0;
    n = nghttp2_session_mem_recv(from, data, len);
    settle_sessions(h);
    if (n < 0 || h->failed) { /* no preface, or a flood: there is no more sense in words */
        x->finished[0] = x->finished[1] = true;
        return n == NGHTTP2_ERR_NOMEM || h->failed ? -ENOMEM : -EPROTO;
    }
    return 0;
}

static void h2_eof(struct httpx *x, enum httpx_way way) {
    if (way == HTTPX_TO_CLIENT)
        server_gone(h2_of(x));
    else
        client_gone(h2_of(x));
}

/* Flow control bounds DATA; nghttp2 bounds what other frames bring about (streams at once, acknowledgements that wait). */
static bool h2_wants(const struct httpx *x, enum httpx_way way) {
    enum httpx_way from = h2_other(way);

    return x->finished[from] || nghttp2_session_want_read(((const struct h2 *)x)->session[from]);
}

/*
 * Where a head with a secret goes out: nghttp2 wrote it into a buffer that it keeps for the next frames, and does not look at
 * again once the bytes were given to us.
 */
static void add_secret(struct http_queue *q, const uint8_t *p, size_t n) {
    buf_add(http_queue_secret_buf(q, n), p, n);
    http_queue_secret_end(q);
    explicit_bzero((uint8_t *)p, n);
}

static void h2_fill(struct httpx *x, enum httpx_way way) {
    struct h2 *h = h2_of(x);
    ssize_t n = 1;

    if (way == HTTPX_TO_SERVER && h->server_gone)
        return;
    while (n > 0 && http_queue_len(&x->out[way]) < H2_FILL) {
        bool secret = h->telling && way == HTTPX_TO_SERVER; /* before: when a head is given to us, it counts as sent */
        const uint8_t *p;

        n = nghttp2_session_mem_send(h->session[way], &p);
        if (n > 0 && secret)
            add_secret(&x->out[way], p, (size_t)n);
        else if (n > 0)
            http_queue_add(&x->out[way], p, (size_t)n);
    }
    if (n < 0 || h->failed)
        x->finished[0] = x->finished[1] = true;
    settle_sessions(h);
}

/* The stream of a request that waits; NULL if it is gone. */
static struct h2_stream *find_waiting(struct h2 *h, uint32_t id) {
    struct h2_stream *s = nghttp2_session_get_stream_user_data(h->session[HTTPX_TO_CLIENT], (int32_t)id);

    return s && s->state == H2_WAIT && !s->closed[HTTPX_TO_CLIENT] ? s : NULL;
}

static void h2_decide(struct httpx *x, uint32_t id, const struct policy_verdict *v) {
    struct h2 *h = h2_of(x);
    struct h2_stream *s = find_waiting(h, id);

    if (s)
        h2_request_decide(h, s, v);
}

static struct http_head *h2_fields_of(struct httpx *x, uint32_t id) {
    struct h2_stream *s = find_waiting(h2_of(x), id);

    return s ? &s->pipe[HTTPX_TO_SERVER].head : NULL;
}

static int h2_set_query(struct httpx *x, uint32_t id, const char *query) {
    struct h2_stream *s = find_waiting(h2_of(x), id);
    struct h2_pipe *up = s ? &s->pipe[HTTPX_TO_SERVER] : NULL;
    size_t path, len = strlen(query);
    char *copy;

    if (!s)
        return -ENOENT;
    if (up->pseudo[H2_PATH][0] != '/')
        return -EINVAL;
    path = strcspn(up->pseudo[H2_PATH], "?");
    copy = http_head_keep_secret(&up->head, up->pseudo[H2_PATH], path, query, len);
    if (!copy)
        return -ENOMEM;
    s->target = copy;
    return 0;
}

static void h2_answer(struct httpx *x, uint32_t id, const struct httpx_reply *reply) {
    struct h2_stream *s = find_waiting(h2_of(x), id);

    if (s)
        h2_reply(h2_of(x), s, reply);
}

static bool h2_pause(struct httpx *x) {
    struct h2 *h = h2_of(x);
    bool more = false;

    for (struct h2_stream *s = h->streams; s; s = s->next)
        more = h2_response_held(h, s) || more;
    return more;
}

static bool h2_busy(const struct httpx *x) {
    return ((const struct h2 *)x)->n_streams > 0;
}

static void h2_free(struct httpx *x) {
    struct h2 *h = h2_of(x);

    nghttp2_session_del(h->session[0]);
    nghttp2_session_del(h->session[1]);
    while (h->streams)
        h2_stream_free(h, h->streams);
    httpx_done(x);
    free(h);
}

static const struct httpx_ops h2_ops = {
    .data = h2_data,
    .eof = h2_eof,
    .wants = h2_wants,
    .fill = h2_fill,
    .decide = h2_decide,
    .head = h2_fields_of,
    .set_query = h2_set_query,
    .answer = h2_answer,
    .pause = h2_pause,
    .busy = h2_busy,
    .free = h2_free,
};

struct httpx *h2_new(const struct httpx_opts *opts) {
    struct h2 *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    httpx_init(&h->x, &h2_ops, opts);
    h->resets_left = H2_RESETS_MAX;
    if (h2_sessions_new(h) < 0) {
        h2_free(&h->x);
        return NULL;
    }
    return &h->x;
}
