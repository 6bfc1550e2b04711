/* SPDX-License-Identifier: Apache-2.0 */
/* The two nghttp2 sessions and their callbacks. */
#include <errno.h>
#include <malloc.h>

#include "base/secret.h"
#include "base/str.h"
#include "gateway/http/h2_priv.h"

/* Where the bytes go that this session receives. */
static enum httpx_way way_in(const struct h2 *h, const nghttp2_session *session) {
    return session == h->session[HTTPX_TO_CLIENT] ? HTTPX_TO_SERVER : HTTPX_TO_CLIENT;
}

static const char *const pseudo_names[H2_PSEUDOS] = {
    [H2_METHOD] = ":method", [H2_SCHEME] = ":scheme", [H2_AUTHORITY] = ":authority", [H2_PATH] = ":path", [H2_STATUS] = ":status",
};

enum { FIELD_COST = 32 }; /* RFC 9113, 6.5.2 */

static void head_begin(struct h2_pipe *p, bool trailers) {
    p->in_trailers = trailers;
    if (trailers)
        return;
    http_head_clear(&p->head); /* an interim answer may have been here */
    memset(p->pseudo, 0, sizeof p->pseudo);
    p->head_bytes = 0;
}

static void add_pseudo(struct h2_pipe *p, const char *name, size_t name_len, const char *value, size_t value_len) {
    for (size_t i = 0; i < H2_PSEUDOS; i++) {
        if (strlen(pseudo_names[i]) != name_len || memcmp(pseudo_names[i], name, name_len) != 0)
            continue;
        if (http_head_add(&p->head, name, name_len, value, value_len) < 0)
            p->too_large = true;
        else
            p->pseudo[i] = p->head.v[--p->head.len].value; /* only its memory is needed */
        return;
    }
    p->too_large = true; /* :protocol, which nghttp2 refuses before */
}

static void head_add(struct h2_pipe *p, const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len) {
    struct http_head *head = p->in_trailers ? &p->trailers : &p->head;

    p->head_bytes += name_len + value_len + FIELD_COST;
    if (p->head_bytes > HTTPX_HEAD_MAX)
        p->too_large = true;
    if (p->too_large)
        return;
    if (name_len && name[0] == ':')
        add_pseudo(p, (const char *)name, name_len, (const char *)value, value_len);
    else if (http_head_add(head, (const char *)name, name_len, (const char *)value, value_len) < 0)
        p->too_large = true;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct h2 *h = arg;
    enum httpx_way way = way_in(h, session);
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (!s && way == HTTPX_TO_SERVER && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        if (h->n_streams >= H2_STREAMS_OPEN_MAX)
            return nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
        s = h2_stream_new(h, frame->hd.stream_id);
        if (!s)
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, s);
    }
    /* An answer may have several heads (1xx first): trailers are what comes behind the last of them. */
    if (s)
        head_begin(&s->pipe[way], way == HTTPX_TO_SERVER ? s->state != H2_HEAD : s->pipe[way].started);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg) {
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (s && frame->hd.type == NGHTTP2_HEADERS)
        head_add(&s->pipe[way_in(arg, session)], name, name_len, value, value_len);
    return 0;
}

/* nghttp2 leaves such fields out. In an answer that is enough; a request is refused, as it is in HTTP/1. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                             const uint8_t *value, size_t value_len, uint8_t flags, void *arg) {
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (s && way_in(arg, session) == HTTPX_TO_SERVER)
        httpx_refuse(&s->why, 400, POLICY_NOT_HTTP, "A header has a byte in it that no header has");
    return 0;
}

/* A message without its trailers would be another message: too many of them end the stream. */
static void got_trailers(struct h2 *h, struct h2_stream *s, enum httpx_way way) {
    struct h2_pipe *p = &s->pipe[way];

    http_head_strip_trailers(&p->trailers);
    p->has_trailers = p->trailers.len > 0 && !p->dead && s->state != H2_REFUSED;
    if (!p->too_large)
        return;
    h2_pipe_kill(h, s, way);
    h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_ENHANCE_YOUR_CALM);
    h2_reset(h, s, HTTPX_TO_SERVER, NGHTTP2_CANCEL);
}

static void got_head(struct h2 *h, struct h2_stream *s, enum httpx_way way, bool end) {
    struct h2_pipe *p = &s->pipe[way];

    if (p->in_trailers) {
        got_trailers(h, s, way);
    } else if (way == HTTPX_TO_SERVER) {
        h2_request(h, s, end);
    } else if (p->pseudo[H2_STATUS]) {
        h2_response(h, s, end);
    }
}

static void got_end(struct h2 *h, struct h2_stream *s, enum httpx_way way) {
    if (way == HTTPX_TO_SERVER)
        h2_request_end(h, s);
    else
        h2_response_end(h, s);
}

static void got_reset(struct h2 *h) {
    if (--h->resets_left < 0)
        nghttp2_session_terminate_session(h->session[HTTPX_TO_CLIENT], NGHTTP2_ENHANCE_YOUR_CALM);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct h2 *h = arg;
    enum httpx_way way = way_in(h, session);
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_RST_STREAM && way == HTTPX_TO_SERVER)
        got_reset(h);
    if (frame->hd.type == NGHTTP2_GOAWAY && way == HTTPX_TO_CLIENT) { /* no new requests, please; open ones go on */
        nghttp2_session *client = h->session[HTTPX_TO_CLIENT];

        nghttp2_submit_goaway(client, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(client), NGHTTP2_NO_ERROR, NULL,
                              0);
    }
    if (!s || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS)
        got_head(h, s, way, frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        got_end(h, s, way);
    return h->failed ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg) {
    struct h2 *h = arg;
    enum httpx_way way = way_in(h, session);
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

    if (s && s->pipe[way].dead && way == HTTPX_TO_SERVER)
        h2_leftover(h, s, len);
    if (!s || s->pipe[way].dead || s->state == H2_REFUSED)
        return nghttp2_session_consume(session, id, len) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    if (way == HTTPX_TO_SERVER)
        h2_request_bytes(h, s, data, len);
    else
        h2_response_bytes(h, s, data, len);
    return h->failed || !buf_ok(&s->pipe[way].body.b) ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct h2 *h = arg;
    enum httpx_way way = h2_other(way_in(h, session));
    struct h2_stream *s;

    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!s)
        return 0;
    if (s->telling && way == HTTPX_TO_SERVER)
        h2_request_forget(h, s);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        h2_pipe_ended(h, s, way);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg) {
    struct h2 *h = arg;
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);

    if (s)
        h2_stream_closed(h, s, h2_other(way_in(h, session)), code);
    return 0;
}

/* nghttp2 resets the stream; this is for the log. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg) {
    struct h2 *h = arg;
    struct httpx_refusal why = {0};
    struct policy_verdict v;

    if (frame->hd.type != NGHTTP2_HEADERS || way_in(h, session) != HTTPX_TO_SERVER)
        return 0;
    httpx_refuse(&why, 400, POLICY_NOT_HTTP, nghttp2_strerror(error));
    httpx_note_refusal(&h->x, (uint32_t)frame->hd.stream_id, "", "", &why, &v);
    return 0;
}

static nghttp2_session_callbacks *make_callbacks(void) {
    nghttp2_session_callbacks *c;

    if (nghttp2_session_callbacks_new(&c) < 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    return c;
}

static nghttp2_option *make_options(void) {
    nghttp2_option *o;

    if (nghttp2_option_new(&o) < 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_no_closed_streams(o, 1);
    nghttp2_option_set_max_send_header_block_length(o, 4 * HTTPX_HEAD_MAX);
    return o;
}

/* Of the session with a server that may say a credential again, in a field: what nghttp2 lets go of, it does not leave behind. */
static void mem_free(void *p, void *arg UNUSED) {
    secret_zero_free(p);
}

static void *mem_alloc(size_t size, void *arg UNUSED) {
    return malloc(size);
}

static void *mem_calloc(size_t n, size_t size, void *arg UNUSED) {
    return calloc(n, size);
}

static void *mem_realloc(void *p, size_t size, void *arg) {
    void *grown = malloc(size);

    if (grown && p)
        memcpy(grown, p, MIN_OF(size, malloc_usable_size(p)));
    if (grown)
        mem_free(p, arg);
    return grown;
}

static bool covers(const struct h2 *h) {
    return h->x.opts.hooks.receiving != NULL;
}

static int server_session(struct h2 *h, const nghttp2_session_callbacks *callbacks, const nghttp2_option *options) {
    nghttp2_mem mem = {.malloc = mem_alloc, .free = mem_free, .calloc = mem_calloc, .realloc = mem_realloc};

    return nghttp2_session_client_new3(&h->session[HTTPX_TO_SERVER], callbacks, h, options, covers(h) ? &mem : NULL);
}

static int start_session(struct h2 *h) {
    static const nghttp2_settings_entry to_client[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, HTTPX_STREAMS_MAX},
                                                       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
                                                       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTPX_HEAD_MAX}};
    static const nghttp2_settings_entry to_server[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                                       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW},
                                                       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTPX_HEAD_MAX},
                                                       {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}}; /* last: see below */
    size_t n_to_server = ARRAY_LEN(to_server) - !covers(h); /* its fields do not stay for the next answers */
    nghttp2_session *client = h->session[HTTPX_TO_CLIENT], *server = h->session[HTTPX_TO_SERVER];

    if (nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, to_client, ARRAY_LEN(to_client)) < 0 ||
        nghttp2_submit_settings(server, NGHTTP2_FLAG_NONE, to_server, n_to_server) < 0 ||
        nghttp2_session_set_local_window_size(client, NGHTTP2_FLAG_NONE, 0, H2_WINDOW) < 0 ||
        nghttp2_session_set_local_window_size(server, NGHTTP2_FLAG_NONE, 0, H2_WINDOW) < 0)
        return -ENOMEM;
    return 0;
}

int h2_sessions_new(struct h2 *h) {
    nghttp2_session_callbacks *callbacks = make_callbacks();
    nghttp2_option *options = make_options();
    int r = -ENOMEM;

    if (callbacks && options && nghttp2_session_server_new2(&h->session[HTTPX_TO_CLIENT], callbacks, h, options) == 0 &&
        server_session(h, callbacks, options) == 0)
        r = start_session(h);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    return r;
}
