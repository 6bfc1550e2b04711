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
