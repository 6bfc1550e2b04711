/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of our own: refusals, and what a hook says in the server's place. */
#include "base/str.h"
#include "gateway/http/h2_priv.h"
#include "gateway/http/refuse.h"

enum { REFUSAL_MAX = 64 * 1024 };

void h2_note_answer(struct h2 *h, struct h2_stream *s, int status) {
    s->answered = true;
    httpx_note_answer(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], status);
}

void h2_reply(struct h2 *h, struct h2_stream *s, const struct httpx_reply *reply) {
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];
    const char *method = s->pipe[HTTPX_TO_SERVER].pseudo[H2_METHOD];
    bool head_only = method && str_eq(method, "HEAD");
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = h2_pipe_read};
    struct h2_fields f = {.len = 0};
    char status[8], length[24];

    s->state = H2_REFUSED;
    h2_pipe_kill(h, s, HTTPX_TO_SERVER);
    h2_pipe_kill(h, s, HTTPX_TO_CLIENT);
    h2_request_forget(h, s);
    snprintf(status, sizeof status, "%d", reply->status);
    snprintf(length, sizeof length, "%zu", reply->len);
    h2_fields_add(&f, ":status", status);
    h2_fields_add(&f, "content-type", reply->type);
    h2_fields_add(&f, "content-length", length);
    h2_fields_add(&f, "cache-control", "no-store");
    if (reply->code)
        h2_fields_add(&f, "bawn-code", reply->code);
    http_queue_add(&down->body, reply->body, reply->len);
    down->dead = down->has_trailers = false;
    down->eof = down->started = true;
    if (nghttp2_submit_response(h->session[HTTPX_TO_CLIENT], s->id[HTTPX_TO_CLIENT], f.v, f.len, head_only ? NULL : &provider) <
        0)
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_INTERNAL_ERROR);
    h2_note_answer(h, s, reply->status);
}

void h2_refuse(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v, int status) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(REFUSAL_MAX);
    bool json = httpx_wants_json(&s->pipe[HTTPX_TO_SERVER].head);

    refuse_body(v, h->x.host.text, h->x.opts.port, json, &body);
    h2_reply(h, s,
             &(struct httpx_reply){.status = status ? status : refuse_status(v),
                                   .type = json ? "application/json" : "text/plain; charset=utf-8",
                                   .code = policy_codes[v->code].name,
                                   .body = buf_str(&body),
                                   .len = body.len});
}

static int note(struct h2 *h, struct h2_stream *s, const char *path, const struct httpx_refusal *why,
                struct policy_verdict *ret) {
    const char *method = s->pipe[HTTPX_TO_SERVER].pseudo[H2_METHOD];

    return httpx_note_refusal(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], method ? method : "", path, why, ret);
}

void h2_refuse_for(struct h2 *h, struct h2_stream *s, const struct httpx_refusal *why) {
    struct policy_verdict v;
    int status = note(h, s, s->pipe[HTTPX_TO_SERVER].pseudo[H2_PATH] ? h->x.req.path.text : "", why, &v);

    h2_refuse(h, s, &v, status);
}

void h2_stop(struct h2 *h, struct h2_stream *s, const struct policy_verdict *v, int status) {
    h2_reset(h, s, HTTPX_TO_SERVER, NGHTTP2_CANCEL);
    if (s->pipe[HTTPX_TO_CLIENT].started) {
        h2_pipe_kill(h, s, HTTPX_TO_SERVER);
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_CANCEL);
    } else {
        h2_refuse(h, s, v, status);
    }
}

void h2_stop_for(struct h2 *h, struct h2_stream *s, const struct httpx_refusal *why) {
    char *path = s->pipe[HTTPX_TO_SERVER].pseudo[H2_PATH]; /* req.path may be that of another stream */
    struct policy_verdict v;
    int status;

    path[strcspn(path, "?")] = 0;
    status = note(h, s, path, why, &v);
    h2_stop(h, s, &v, status);
}

/* The server's ------------------------------------------------------------------------------------------------------- */

/* The head goes on to the client; an answer may have several (1xx first). */
static void pass_head(struct h2 *h, struct h2_stream *s, const char *status, bool end) {
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];
    nghttp2_session *client = h->session[HTTPX_TO_CLIENT];
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = h2_pipe_read};
    int32_t id = s->id[HTTPX_TO_CLIENT];
    bool interim = status[0] == '1';
    struct h2_fields f = {.len = 0};
    int r;

    h2_fields_add(&f, ":status", status);
    h2_fields_add_head(&f, &down->head);
    if (interim)
        r = nghttp2_submit_headers(client, NGHTTP2_FLAG_NONE, id, NULL, f.v, f.len, NULL);
    else
        r = nghttp2_submit_response(client, id, f.v, f.len, end ? NULL : &provider);
    if (r < 0) {
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (interim)
        return;
    down->started = true;
    h2_note_answer(h, s, (int)strtol(status, NULL, 10));
}

void h2_response(struct h2 *h, struct h2_stream *s, bool end) {
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];
    const char *status = down->pseudo[H2_STATUS];

    if (s->closed[HTTPX_TO_CLIENT] || s->state != H2_OPEN)
        return;
    down->eof = end;
    if (down->too_large) {
        h2_reset(h, s, HTTPX_TO_SERVER, NGHTTP2_CANCEL);
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (!httpx_answer_head(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], (int)strtol(status, NULL, 10), &down->head)) {
        h2_stop(h, s, &h->x.why, 502);
        return;
    }
    pass_head(h, s, status, end);
}

static void receive(struct h2 *h, struct h2_stream *s, const uint8_t *data, size_t len, bool end) {
    const struct httpx_hooks *hooks = &h->x.opts.hooks;
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];

    if (hooks->receiving)
        hooks->receiving(hooks->arg, (uint32_t)s->id[HTTPX_TO_CLIENT], data, len, end, http_queue_buf(&down->body, 0));
    else
        http_queue_add(&down->body, data, len);
    h->failed |= !buf_ok(&down->body.b);
    h2_pipe_filled(h, s, HTTPX_TO_CLIENT, len);
}

void h2_response_bytes(struct h2 *h, struct h2_stream *s, const uint8_t *data, size_t len) {
    receive(h, s, data, len, false);
    h2_pipe_resume(h, s, HTTPX_TO_CLIENT);
}

bool h2_response_held(struct h2 *h, struct h2_stream *s) {
    const struct httpx_hooks *hooks = &h->x.opts.hooks;
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];
    bool more;

    if (!down->started || down->eof || down->dead || s->state != H2_OPEN)
        return false;
    more = hooks->pause(hooks->arg, (uint32_t)s->id[HTTPX_TO_CLIENT], http_queue_buf(&down->body, 0));
    h->failed |= !buf_ok(&down->body.b);
    h2_pipe_resume(h, s, HTTPX_TO_CLIENT);
    return more;
}

void h2_response_end(struct h2 *h, struct h2_stream *s) {
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];

    if (down->eof || down->dead) {
        down->eof = true;
        return;
    }
    if (h->x.opts.hooks.receiving)
        receive(h, s, NULL, 0, true);
    if (down->has_trailers && !httpx_answer_head(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], 0, &down->trailers)) {
        h2_pipe_kill(h, s, HTTPX_TO_CLIENT);
        h2_stop(h, s, &h->x.why, 502);
        return;
    }
    down->eof = true;
    h2_pipe_resume(h, s, HTTPX_TO_CLIENT);
}
