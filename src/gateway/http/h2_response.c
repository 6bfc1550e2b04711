/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "gateway/http/h2_priv.h"

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
