#include "base/str.h"
#include "gateway/h2_priv.h"

void h2_note_answer(struct h2 *h, struct h2_stream *s, int status) {
    s->answered = true;
    httpx_note_answer(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT], status);
}

void h2_response(struct h2 *h, struct h2_stream *s, bool end) {
    struct h2_pipe *down = &s->pipe[HTTPX_TO_CLIENT];
    nghttp2_session *client = h->session[HTTPX_TO_CLIENT];
    int32_t id = s->id[HTTPX_TO_CLIENT];
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = h2_pipe_read};
    const char *status = down->pseudo[H2_STATUS];
    bool interim = status[0] == '1';
    struct h2_fields f = {.len = 0};
    int r;

    down->eof = end;
    if (s->closed[HTTPX_TO_CLIENT] || s->state != H2_OPEN)
        return;
    if (down->too_large) {
        h2_reset(h, s, HTTPX_TO_SERVER, NGHTTP2_CANCEL);
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_INTERNAL_ERROR);
        return;
    }
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
