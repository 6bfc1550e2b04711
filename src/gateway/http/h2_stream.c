/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http/h2_priv.h"

static void pipe_done(struct h2_pipe *p) {
    http_head_done(&p->head);
    http_head_done(&p->trailers);
    http_queue_done(&p->body);
}

struct h2_stream *h2_stream_new(struct h2 *h, int32_t id) {
    struct h2_stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->id[HTTPX_TO_CLIENT] = id;
    s->closed[HTTPX_TO_SERVER] = true; /* until it is opened */
    http_queue_init(&s->pipe[0].body);
    http_queue_init(&s->pipe[1].body);
    s->next = h->streams;
    if (s->next)
        s->next->prev = s;
    h->streams = s;
    h->n_streams++;
    return s;
}

void h2_stream_free(struct h2 *h, struct h2_stream *s) {
    if (s->prev)
        s->prev->next = s->next;
    else
        h->streams = s->next;
    if (s->next)
        s->next->prev = s->prev;
    h->n_streams--;
    h->telling -= s->telling;
    pipe_done(&s->pipe[0]);
    pipe_done(&s->pipe[1]);
    free(s->verdict);
    free(s);
}

void h2_reset(struct h2 *h, struct h2_stream *s, enum httpx_way session, uint32_t code) {
    if (!s->closed[session] && nghttp2_submit_rst_stream(h->session[session], NGHTTP2_FLAG_NONE, s->id[session], code) < 0)
        h->failed = true;
}

void h2_pipe_resume(struct h2 *h, struct h2_stream *s, enum httpx_way way) {
    struct h2_pipe *p = &s->pipe[way];

    if (!p->deferred || s->closed[way])
        return;
    p->deferred = false;
    nghttp2_session_resume_data(h->session[way], s->id[way]);
}

/* The sender's window opens for bytes that are gone, wherever they went. */
static void consume(struct h2 *h, struct h2_stream *s, enum httpx_way way, size_t n) {
    enum httpx_way source = h2_other(way);
    struct h2_pipe *p = &s->pipe[way];

    n = MIN_OF(n, p->credit); /* not for our own words, nor for what a hook made of bytes that came before */
    p->credit -= n;
    if (n && nghttp2_session_consume(h->session[source], s->id[source], n) < 0)
        h->failed = true;
}

void h2_pipe_filled(struct h2 *h, struct h2_stream *s, enum httpx_way way, size_t len) {
    struct h2_pipe *p = &s->pipe[way];
    size_t held = s->collecting && way == HTTPX_TO_SERVER ? 0 : http_queue_len(&p->body);

    p->credit += len;
    if (p->credit > held)
        consume(h, s, way, p->credit - held);
}

void h2_pipe_kill(struct h2 *h, struct h2_stream *s, enum httpx_way way) {
    struct h2_pipe *p = &s->pipe[way];

    p->dead = true;
    if (s->collecting && way == HTTPX_TO_SERVER) {
        h->collected -= http_queue_len(&p->body);
        s->collecting = false;
    }
    http_queue_drop(&p->body, http_queue_len(&p->body));
    consume(h, s, way, p->credit);
}

/* Length alone may end a request for its server: the last byte of one waits until the hook has seen the end. */
static size_t readable(const struct h2 *h, const struct h2_stream *s, enum httpx_way way) {
    const struct h2_pipe *p = &s->pipe[way];
    size_t n = http_queue_len(&p->body);

    if (way != HTTPX_TO_SERVER || p->eof || !n || !h->x.opts.hooks.sending || s->passed + n < s->length)
        return n;
    return n - 1;
}

static int send_trailers(struct h2 *h, struct h2_stream *s, enum httpx_way way) {
    struct h2_fields f = {.len = 0};

    h2_fields_add_head(&f, &s->pipe[way].trailers);
    return nghttp2_submit_trailer(h->session[way], s->id[way], f.v, f.len);
}

ssize_t h2_pipe_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t len, uint32_t *flags, nghttp2_data_source *source,
                     void *arg) {
    struct h2 *h = arg;
    struct h2_stream *s = source->ptr;
    enum httpx_way way = session == h->session[HTTPX_TO_CLIENT] ? HTTPX_TO_CLIENT : HTTPX_TO_SERVER;
    struct h2_pipe *p = &s->pipe[way];
    size_t n = MIN_OF(len, readable(h, s, way));

    if (n == 0 && !p->eof) {
        p->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n) {
        memcpy(to, http_queue_bytes(&p->body), n);
        http_queue_drop(&p->body, n);
        consume(h, s, way, n);
        s->passed += way == HTTPX_TO_SERVER ? n : 0;
    }
    if (!p->eof || http_queue_len(&p->body))
        return (ssize_t)n;
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (p->has_trailers) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (send_trailers(h, s, way) < 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

void h2_pipe_ended(struct h2 *h, struct h2_stream *s, enum httpx_way way) {
    s->pipe[way].ended = true;
    if (way != HTTPX_TO_CLIENT)
        return;
    h->resets_left = MIN_OF(h->resets_left + 1, (int)H2_RESETS_MAX);
    if (!s->pipe[HTTPX_TO_SERVER].eof && s->reset != NGHTTP2_NO_ERROR)
        h2_reset(h, s, HTTPX_TO_CLIENT, s->reset);
}

void h2_leftover(struct h2 *h, struct h2_stream *s, size_t len) {
    if (!s->pipe[HTTPX_TO_CLIENT].ended || s->leftover > H2_LEFTOVER_MAX)
        return;
    s->leftover += len;
    if (s->leftover > H2_LEFTOVER_MAX)
        h2_reset(h, s, HTTPX_TO_CLIENT, NGHTTP2_NO_ERROR); /* RFC 9113, 8.1 */
}

static void client_closed(struct h2 *h, struct h2_stream *s, uint32_t code) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER], *down = &s->pipe[HTTPX_TO_CLIENT];

    h2_pipe_kill(h, s, HTTPX_TO_CLIENT);
    if (s->judged && !s->answered)
        h2_note_answer(h, s, 0);
    if (s->closed[HTTPX_TO_SERVER])
        return;
    if (code == NGHTTP2_NO_ERROR && up->eof && down->ended)
        return; /* all said; what is left of the request still goes on */
    h2_pipe_kill(h, s, HTTPX_TO_SERVER);
    h2_reset(h, s, HTTPX_TO_SERVER, code == NGHTTP2_NO_ERROR ? NGHTTP2_CANCEL : code);
}

static void server_closed(struct h2 *h, struct h2_stream *s, uint32_t code) {
    struct h2_pipe *up = &s->pipe[HTTPX_TO_SERVER], *down = &s->pipe[HTTPX_TO_CLIENT];

    h2_pipe_kill(h, s, HTTPX_TO_SERVER);
    if (s->closed[HTTPX_TO_CLIENT] || s->state == H2_REFUSED)
        return;
    s->reset = code;
    if (!down->eof) {
        h2_pipe_kill(h, s, HTTPX_TO_CLIENT);
        h2_reset(h, s, HTTPX_TO_CLIENT, code == NGHTTP2_NO_ERROR ? NGHTTP2_INTERNAL_ERROR : code);
    } else if (down->ended && !up->eof && code != NGHTTP2_NO_ERROR) {
        h2_reset(h, s, HTTPX_TO_CLIENT, code);
    }
}

void h2_stream_closed(struct h2 *h, struct h2_stream *s, enum httpx_way session, uint32_t code) {
    s->closed[session] = true;
    if (s->telling && session == HTTPX_TO_SERVER)
        h2_request_forget(h, s);
    if (session == HTTPX_TO_CLIENT)
        client_closed(h, s, code);
    else
        server_closed(h, s, code);
    if (!s->closed[0] || !s->closed[1])
        return;
    h2_pipe_kill(h, s, HTTPX_TO_SERVER); /* the window that its bytes held belongs to all streams */
    h2_pipe_kill(h, s, HTTPX_TO_CLIENT);
    if (s->judged)
        httpx_note_end(&h->x, (uint32_t)s->id[HTTPX_TO_CLIENT]);
    h2_stream_free(h, s);
}

/* Fields as nghttp2 takes them ------------------------------------------------------------------------------------------ */

/* A secret is never in a table that both ends keep for the connection, nor copied: h2_request_forget() has the only one. */
enum { SECRET = NGHTTP2_NV_FLAG_NO_INDEX | NGHTTP2_NV_FLAG_NO_COPY_VALUE };

static void add_field(struct h2_fields *f, char *name, size_t name_len, char *value, size_t value_len, uint8_t flags) {
    if (f->len == ARRAY_LEN(f->v))
        BUG("more fields than a head can have");
    f->v[f->len++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_len, value_len, flags};
}

void h2_fields_add(struct h2_fields *f, const char *name, const char *value) {
    add_field(f, (char *)name, strlen(name), (char *)value, strlen(value), NGHTTP2_NV_FLAG_NONE);
}

void h2_fields_add_secret(struct h2_fields *f, const char *name, const char *value) {
    add_field(f, (char *)name, strlen(name), (char *)value, strlen(value), SECRET);
}

static bool goes_on(const struct http_header *f) {
    switch ((enum http_name)f->known) {
    case HTTP_NAME_OTHER:
    case HTTP_NAME_ACCEPT:
    case HTTP_NAME_EXPECT:
    case HTTP_NAME_CONTENT_LENGTH:
    case HTTP_NAME_TE: /* "trailers", or nghttp2 had refused it: gRPC insists on it */
        return true;
    case HTTP_NAME_HOST: /* is in :authority */
    case HTTP_NAME_CONNECTION:
    case HTTP_NAME_HTTP2_SETTINGS:
    case HTTP_NAME_KEEP_ALIVE:
    case HTTP_NAME_PROXY_AUTHENTICATE:
    case HTTP_NAME_PROXY_AUTHORIZATION:
    case HTTP_NAME_PROXY_CONNECTION:
    case HTTP_NAME_TRANSFER_ENCODING:
    case HTTP_NAME_UPGRADE:
    case HTTP_NAMES:
        return false;
    }
    return false;
}

void h2_fields_add_head(struct h2_fields *f, const struct http_head *head) {
    for (size_t i = 0; i < head->len && f->len < ARRAY_LEN(f->v); i++) {
        const struct http_header *v = &head->v[i];

        if (goes_on(v))
            add_field(f, v->name, v->name_len, v->value, v->value_len, v->secret ? SECRET : NGHTTP2_NV_FLAG_NONE);
    }
}
