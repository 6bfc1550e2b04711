#include <errno.h>

#include "base/str.h"
#include "gateway/h2_priv.h"
#include "gateway/refuse.h"

enum { REFUSAL_MAX = 64 * 1024 };

/* The request's own head, which hooks may have changed: names have small letters here. */
static void lower_names(struct http_head *head) {
    for (size_t i = 0; i < head->len; i++)
        for (char *c = head->v[i].name; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c |= 0x20;
}

void h2_refuse(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v, int status) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(REFUSAL_MAX);
    bool json = httpx_wants_json(&s->pipe[HTTPX_TO_SERVER].head);
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];
    const char *method = s->pipe[HTTPX_TO_SERVER].pseudo[H2_METHOD];
    bool head_only = method && str_eq(method, "HEAD");
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = h2_pipe_read};
    struct h2_fields f = {.len = 0};
    char code[8], length[24];

    status = status ? status : refuse_status(v);
    s->state = H2_REFUSED;
    h2_pipe_kill(h, s, HTTPX_TO_SERVER);
    refuse_body(v, h->x.host.text, h->x.opts.port, json, &body);
    snprintf(code, sizeof code, "%d", status);
    snprintf(length, sizeof length, "%zu", body.len);
    h2_fields_add(&f, ":status", code);
    h2_fields_add(&f, "content-type", json ? "application/json" : "text/plain; charset=utf-8");
    h2_fields_add(&f, "content-length", length);
    h2_fields_add(&f, "cache-control", "no-store");
    h2_fields_add(&f, "bawn-code", policy_codes[v->code].name);
    http_queue_add(&down->body, buf_str(&body), body.len);
    down->eof = down->started = true;
    if (nghttp2_submit_response(h->session[HTTPX_TO_CLIENT], s->id[HTTPX_TO_CLIENT], f.v, f.len, head_only ? NULL : &provider) <
        0)
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_INTERNAL_ERROR);
    h2_note_answer(h, s, status);
}

static void refuse_for(struct h2 *h, struct h2_stream *s, const struct httpx_refusal *why) {
    const char *const *pseudo = (const char *const *)s->pipe[HTTPX_TO_SERVER].pseudo;
    struct policy_verdict v;
    int status = httpx_note_refusal(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], pseudo[H2_METHOD] ? pseudo[H2_METHOD] : "",
                                    pseudo[H2_PATH] ? h->x.req.path.text : "", why, &v);

    h2_refuse(h, s, &v, status);
}

static void refuse_body_size(struct h2 *h, struct h2_stream *s) {
    struct httpx_refusal why = {0};

    httpx_refuse(&why, 413, POLICY_BODY_TOO_LARGE, "The rule for this request limits its body");
    h->x.req.path.text[0] = 0; /* may be that of another stream */
    h2_reset(h, s, HTTPX_TO_SERVER, NGHTTP2_CANCEL);
    if (s->pipe[HTTPX_TO_CLIENT].started) {
        h2_pipe_kill(h, s, HTTPX_TO_SERVER);
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_CANCEL);
    } else {
        refuse_for(h, s, &why);
    }
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
    h2_fields_add(&f, ":path", up->pseudo[H2_PATH]);
    h2_fields_add_head(&f, &up->head);
    id = h->server_gone ? -1 : nghttp2_submit_request(h->session[HTTPX_TO_SERVER], NULL, f.v, f.len, empty ? NULL : &provider, s);
    if (id < 0) { /* the server said GOAWAY, or its numbers are used up: the client may try again on a new connection */
        h2_pipe_kill(h, s, HTTPX_TO_SERVER);
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_REFUSED_STREAM);
        return;
    }
    s->state = H2_OPEN;
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

static void allow(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    uint64_t length = declared_length(&up->head, up->eof);

    if (v->max_body) {
        s->verdict = malloc(sizeof *s->verdict);
        if (!s->verdict) {
            h->failed = true;
            return;
        }
        *s->verdict = *v;
        s->sent = http_queue_len(&up->body);
        if (httpx_too_large(v, s->sent) || (length != UINT64_MAX && httpx_too_large(v, length))) {
            refuse_body_size(h, s);
            return;
        }
    }
    open_request(h, s);
}

void h2_request_decide(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v) {
    if (v->action == RULE_ALLOW)
        allow(h, s, v);
    else
        h2_refuse(h, s, v, 0);
}

void h2_request(struct h2 *h, struct h2_stream *s, bool end) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];
    struct httpx_request *req = &h->x.req;
    struct policy_verdict v = {0};
    struct httpx_refusal why = {0};

    up->eof = end;
    req->path.text[0] = 0;
    if (!check_request(h, s, &why)) {
        refuse_for(h, s, &why);
        return;
    }
    if (keep_target(h, up) < 0) {
        h->failed = true;
        return;
    }
    req->id = (uint32_t)s->id[HTTPX_TO_CLIENT];
    req->method = up->pseudo[H2_METHOD];
    req->head = &up->head;
    req->has_body = !end;
    req->body_len = declared_length(&up->head, end);
    req->upgrade = false;
    s->judged = true;
    switch (h->x.opts.hooks.judge(h->x.opts.hooks.arg, req, &v)) {
    case HTTPX_ALLOW:
        allow(h, s, &v);
        return;
    case HTTPX_DENY:
        h2_refuse(h, s, &v, 0);
        return;
    case HTTPX_WAIT:
        s->state = H2_WAIT;
        return;
    }
    BUG("an answer that is none");
}

void h2_request_bytes(struct h2 *h, struct h2_stream *s, const uint8_t *data, size_t len) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER];

    s->sent += s->verdict ? len : 0;
    http_queue_add(&up->body, data, len);
    if (s->verdict && httpx_too_large(s->verdict, s->sent))
        refuse_body_size(h, s);
    else
        h2_pipe_resume(h, s, HTTPX_TO_SERVER);
}
