/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/str.h"
#include "gateway/http/h2_priv.h"

/* The request's own head, which hooks may have changed: names have small letters here. */
static void lower_names(struct http_head *head) {
    for (size_t i = 0; i < head->len; i++)
        for (char *c = head->v[i].name; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c |= 0x20;
}

static bool check_request(struct h2 *h, struct h2_stream *s, struct httpx_refusal *why) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    char *const *pseudo = up->pseudo;
    struct httpx_request *req = &h->x.req;
    const struct http_header *host;
    bool many = false;

    if (up->too_large)
        return httpx_refuse(why, 431, POLICY_NOT_HTTP, "The head is larger than 64 KiB, or has more than 200 headers");
    if (s->why.status) {
        *why = s->why;
        return false;
    }
    if (!pseudo[H2_METHOD] || !httpx_check_method(pseudo[H2_METHOD], why))
        return why->status ? false : httpx_refuse(why, 400, POLICY_NOT_HTTP, "The request has no method");
    if (!pseudo[H2_SCHEME] || !pseudo[H2_PATH] || !str_eq(pseudo[H2_SCHEME], h->x.opts.tls ? "https" : "http"))
        return httpx_refuse(why, 400, POLICY_NOT_HTTP, "The request's scheme is not that of the connection");
    host = http_head_one(&up->head, HTTP_NAME_HOST, &many);
    if (many || (!host && !pseudo[H2_AUTHORITY]))
        return httpx_refuse(why, 400, POLICY_NOT_HTTP, "The request does not name one host");
    if (pseudo[H2_AUTHORITY] && !httpx_check_authority(&h->x, pseudo[H2_AUTHORITY], strlen(pseudo[H2_AUTHORITY]), why))
        return false;
    if (host && !httpx_check_authority(&h->x, host->value, host->value_len, why))
        return false;
    return httpx_check_target(pseudo[H2_METHOD], pseudo[H2_PATH], strlen(pseudo[H2_PATH]), &req->path, &req->query, why);
}

/* What is sent on, in the memory of the head: req is for the next stream then. */
static int keep_target(struct h2 *h, struct h2_pipe *up) {
    const struct httpx_request *req = &h->x.req;
    CLEANUP(buf_done) struct buf b = BUF_INIT(HTTP_PATH_MAX + HTTPX_URI_MAX);

    if (req->path.changed) {
        buf_add(&b, req->path.text, req->path.len);
        buf_adds(&b, req->query);
        if (!buf_ok(&b) || http_head_add(&up->head, ":path", 5, b.data, b.len) < 0)
            return -ENOMEM;
        up->pseudo[H2_PATH] = up->head.v[--up->head.len].value;
    }
    return 0;
}

void h2_request_forget(struct h2 *h, struct h2_stream *s) {
    h->telling -= s->telling;
    s->telling = false;
    s->target = NULL;
    http_head_wipe(&s->pipe[HTTPX_TO_SERVER].head);
}

static void open_request(struct h2 *h, struct h2_stream *s) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = h2_pipe_read};
    bool empty = up->eof && http_queue_len(&up->body) == 0 && !up->has_trailers;
    struct h2_fields f = {.len = 0};
    int32_t id;

    lower_names(&up->head);
    h2_fields_add(&f, ":method", up->pseudo[H2_METHOD]);
    h2_fields_add(&f, ":scheme", up->pseudo[H2_SCHEME]);
    h2_fields_add(&f, ":authority", h->x.authority);
    if (s->target)
        h2_fields_add_secret(&f, ":path", s->target);
    else
        h2_fields_add(&f, ":path", up->pseudo[H2_PATH]);
    h2_fields_add_head(&f, &up->head);
    id = h->server_gone ? -1 : nghttp2_submit_request(h->session[HTTPX_TO_SERVER], NULL, f.v, f.len, empty ? NULL : &provider, s);
    if (id < 0) { /* the server said GOAWAY, or its numbers are used up: the client may try again on a new connection */
        s->state = H2_REFUSED;
        h2_request_forget(h, s);
        h2_pipe_kill(h, s, HTTPX_TO_SERVER);
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_REFUSED_STREAM);
        return;
    }
    s->state = H2_OPEN;
    s->telling = up->head.secrets;
    h->telling += s->telling;
    s->id[HTTPX_TO_SERVER] = id;
    s->closed[HTTPX_TO_SERVER] = false;
    up->started = true;
}

static uint64_t declared_length(const struct http_head *head, bool end) {
    bool many = false;
    const struct http_header *f = http_head_one(head, HTTP_NAME_CONTENT_LENGTH, &many);

    if (end)
        return 0;
    return f ? strtoull(f->value, NULL, 10) : UINT64_MAX; /* nghttp2 has checked it */
}

static void refuse_body_size(struct h2 *h, struct h2_stream *s) {
    struct httpx_refusal why = {0};

    httpx_refuse(&why, 413, POLICY_BODY_TOO_LARGE, "The rule for this request limits its body");
    h2_stop_for(h, s, &why);
}

static void allow(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    uint64_t length = s->length == UINT64_MAX ? 0 : s->length;

    if (v->max_body) {
        s->verdict = malloc(sizeof *s->verdict);
        if (!s->verdict) {
            h->failed = true;
            return;
        }
        *s->verdict = *v;
        s->sent = http_queue_len(&up->body);
        if (httpx_too_large(v, MAX_OF(s->sent, length))) {
            refuse_body_size(h, s);
            return;
        }
    }
    open_request(h, s);
}

static void stop_collecting(struct h2 *h, struct h2_stream *s) {
    if (s->collecting)
        h->collected -= http_queue_len(&s->pipe[HTTPX_TO_SERVER].body);
    s->collecting = false;
}

void h2_request_decide(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v) {
    stop_collecting(h, s);
    if (v->action == RULE_ALLOW)
        allow(h, s, v);
    else
        h2_refuse(h, s, v, 0);
}

static void collected(struct h2 *h, struct h2_stream *s) {
    const struct httpx_hooks *hooks = &h->x.opts.hooks;
    const struct http_queue *body = &s->pipe[HTTPX_TO_SERVER].body;

    if (!hooks->collected)
        BUG("a body that nobody wants to see");
    hooks->collected(hooks->arg, (uint32_t)s->id[HTTPX_TO_CLIENT], http_queue_bytes(body), http_queue_len(body));
}

/* The server does not know of the request yet, so it is ours to say that the body may come. */
static void collect(struct h2 *h, struct h2_stream *s, bool end) {
    struct http_head *head = &s->pipe[HTTPX_TO_SERVER].head;
    struct httpx_refusal why = {0};
    struct h2_fields f = {.len = 0};

    s->state = H2_WAIT;
    if (end) {
        collected(h, s);
        return;
    }
    if (s->length != UINT64_MAX && !httpx_check_collect(s->length, &why)) {
        h2_stop_for(h, s, &why);
        return;
    }
    s->collecting = true;
    if (!httpx_waits_for_100(head))
        return;
    http_head_remove(head, "expect");
    h2_fields_add(&f, ":status", "100");
    if (nghttp2_submit_headers(h->session[HTTPX_TO_CLIENT], NGHTTP2_FLAG_NONE, s->id[HTTPX_TO_CLIENT], NULL, f.v, f.len, NULL) <
        0)
        h->failed = true;
}

static void judge(struct h2 *h, struct h2_stream *s, bool end) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    struct httpx_request *req = &h->x.req;
    struct policy_verdict v = {0};

    req->id = (uint32_t)s->id[HTTPX_TO_CLIENT];
    req->method = up->pseudo[H2_METHOD];
    req->head = &up->head;
    req->has_body = !end;
    req->body_len = s->length = declared_length(&up->head, end);
    req->upgrade = req->covered = false;
    s->judged = true;
    switch (httpx_judge(&h->x, &v)) {
    case HTTPX_ALLOW:
        allow(h, s, &v);
        return;
    case HTTPX_DENY:
        h2_refuse(h, s, &v, 0);
        return;
    case HTTPX_WAIT:
        s->state = H2_WAIT;
        return;
    case HTTPX_COLLECT:
        collect(h, s, end);
        return;
    }
    BUG("an answer that is none");
}

void h2_request(struct h2 *h, struct h2_stream *s, bool end) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    struct httpx_refusal why = {0};

    up->eof = end;
    h->x.req.path.text[0] = 0;
    if (!check_request(h, s, &why))
        h2_refuse_for(h, s, &why);
    else if (keep_target(h, up) < 0)
        h->failed = true;
    else
        judge(h, s, end);
}

/* Of a body that is collected: is there room for it? */
static bool check_collect(struct h2 *h, struct h2_stream *s, struct httpx_refusal *why) {
    if (h->collected > H2_COLLECT_MAX)
        return httpx_refuse(why, 413, POLICY_BODY_TOO_LARGE, "Too many bodies of this connection have to be seen whole at once");
    return httpx_check_collect(http_queue_len(&s->pipe[HTTPX_TO_SERVER].body), why);
}

void h2_request_bytes(struct h2 *h, struct h2_stream *s, const uint8_t *data, size_t len) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    struct httpx_refusal why = {0};

    if (!httpx_sending(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], data, len, false)) {
        h2_pipe_filled(h, s, HTTPX_TO_SERVER, len);
        h2_stop(h, s, &h->x.why, 0);
        return;
    }
    s->sent += s->verdict ? len : 0;
    http_queue_add(&up->body, data, len);
    h2_pipe_filled(h, s, HTTPX_TO_SERVER, len);
    h->collected += s->collecting ? len : 0;
    if (s->collecting && !check_collect(h, s, &why))
        h2_stop_for(h, s, &why);
    else if (s->verdict && httpx_too_large(s->verdict, s->sent))
        refuse_body_size(h, s);
    else
        h2_pipe_resume(h, s, HTTPX_TO_SERVER);
}

void h2_request_end(struct h2 *h, struct h2_stream *s) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];

    if (up->eof)
        return;
    if (!up->dead && !httpx_sending_end(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], &up->trailers)) {
        h2_stop(h, s, &h->x.why, 0);
        return;
    }
    up->eof = true;
    if (s->collecting)
        collected(h, s);
    else
        h2_pipe_resume(h, s, HTTPX_TO_SERVER);
}
