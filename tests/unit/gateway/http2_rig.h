/* SPDX-License-Identifier: Apache-2.0 */
/* The gate between two real nghttp2 peers, for tests. */
#pragma once

#include <nghttp2/nghttp2.h>

#include "gateway/http/httpx_priv.h"
#include "http_rig.h"

enum { STREAMS = 2048 };

struct got { /* of one stream, at a peer */
    char head[1200];
    struct buf body;
    size_t begun; /* HEADERS frames */
    bool end, closed;
    uint32_t code;
    /* what this peer sends */
    const char *send;
    size_t send_len, sent;
    bool hold_end;
    nghttp2_nv trailer;
};

struct peer {
    nghttp2_session *session;
    struct got *got;
    bool goaway;
    uint32_t goaway_code;
    bool no_consume;
    struct buf raw; /* when bytes are written by hand */
};

struct net {
    struct rig r;
    struct peer client, server;
};

static inline struct got *stream(struct peer *p, int32_t id) {
    assert_true(id > 0 && id < STREAMS);
    return &p->got[id];
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t nl, const uint8_t *value, size_t vl,
                     uint8_t flags, void *arg) {
    struct got *g = stream(arg, f->hd.stream_id);
    size_t n = strlen(g->head);

    snprintf(g->head + n, sizeof g->head - n, "%.*s=%.*s\n", (int)nl, name, (int)MIN_OF(vl, (size_t)100), value);
    return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *arg) {
    struct peer *p = arg;

    if (f->hd.type == NGHTTP2_GOAWAY) {
        p->goaway = true;
        p->goaway_code = f->goaway.error_code;
    }
    if (f->hd.type == NGHTTP2_HEADERS)
        stream(p, f->hd.stream_id)->begun++;
    if ((f->hd.type == NGHTTP2_HEADERS || f->hd.type == NGHTTP2_DATA) && f->hd.flags & NGHTTP2_FLAG_END_STREAM)
        stream(p, f->hd.stream_id)->end = true;
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg) {
    struct peer *p = arg;

    buf_add(&stream(p, id)->body, data, len);
    if (!p->no_consume)
        nghttp2_session_consume(s, id, len);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code, void *arg) {
    struct got *g = stream(arg, id);

    g->closed = true;
    g->code = code;
    return 0;
}

static inline void peer_open(struct peer *p, bool server) {
    nghttp2_session_callbacks *c;
    nghttp2_option *o;

    *p = (struct peer){.got = calloc(STREAMS, sizeof(struct got)), .raw = BUF_INIT(RIG_MAX)};
    for (size_t i = 0; i < STREAMS; i++)
        p->got[i].body = (struct buf)BUF_INIT(RIG_MAX);
    assert_int_equal(nghttp2_session_callbacks_new(&c), 0);
    assert_int_equal(nghttp2_option_new(&o), 0);
    nghttp2_option_set_no_auto_window_update(o, 1);
    nghttp2_option_set_max_send_header_block_length(o, 1024 * 1024);
    nghttp2_option_set_no_http_messaging(o, 1); /* so that it can say what it must not */
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
    assert_int_equal((server ? nghttp2_session_server_new2 : nghttp2_session_client_new2)(&p->session, c, p, o), 0);
    nghttp2_session_callbacks_del(c);
    nghttp2_option_del(o);
    assert_int_equal(nghttp2_submit_settings(p->session, 0, NULL, 0), 0);
}

static inline void peer_close(struct peer *p) {
    nghttp2_session_del(p->session);
    for (size_t i = 0; i < STREAMS; i++)
        buf_done(&p->got[i].body);
    free(p->got);
    buf_done(&p->raw);
}

/* One round of all that anybody has to say; false: nobody had. */
static inline bool pump_one(struct net *n, struct peer *p, enum httpx_way to, enum httpx_way from) {
    const uint8_t *data;
    bool any = false;
    ssize_t len;

    while ((len = nghttp2_session_mem_send(p->session, &data)) > 0) {
        if (httpx_data(n->r.x, to, data, (size_t)len) < 0)
            break;
        any = true;
    }
    if (p->raw.len) {
        httpx_data(n->r.x, to, (const uint8_t *)p->raw.data, p->raw.len);
        buf_clear(&p->raw);
        any = true;
    }
    len = (ssize_t)httpx_out(n->r.x, from, &data);
    if (len) {
        assert_true(nghttp2_session_mem_recv(p->session, data, (size_t)len) == len);
        httpx_wrote(n->r.x, from, (size_t)len);
        any = true;
    }
    return any;
}

static inline void pump(struct net *n) {
    bool any = true;

    while (any) {
        any = pump_one(n, &n->client, HTTPX_TO_SERVER, HTTPX_TO_CLIENT);
        any |= pump_one(n, &n->server, HTTPX_TO_CLIENT, HTTPX_TO_SERVER);
    }
}

static inline void net_open_with(struct net *n, const struct httpx_hooks *more) {
    rig_open_with(&n->r, HTTPX_H2, true, false, more);
    peer_open(&n->client, false);
    peer_open(&n->server, true);
    pump(n);
}

static inline void net_open(struct net *n) {
    net_open_with(n, &(struct httpx_hooks){0});
}

static inline void net_close(struct net *n) {
    rig_close(&n->r);
    peer_close(&n->client);
    peer_close(&n->server);
}

#define NV(n, v) \
    { (uint8_t *)(n), (uint8_t *)(v), strlen(n), strlen(v), NGHTTP2_NV_FLAG_NONE }
#define FIELDS(...) (nghttp2_nv[]){__VA_ARGS__}, ARRAY_LEN(((nghttp2_nv[]){__VA_ARGS__}))
#define START(method, path) NV(":method", method), NV(":scheme", "https"), NV(":authority", "example.com"), NV(":path", path)

static ssize_t give(nghttp2_session *s, int32_t id, uint8_t *to, size_t len, uint32_t *flags, nghttp2_data_source *source,
                    void *arg) {
    struct got *g = source->ptr;
    size_t n = MIN_OF(len, g->send_len - g->sent);

    memcpy(to, g->send + g->sent, n);
    g->sent += n;
    if (n == 0 && g->hold_end)
        return NGHTTP2_ERR_DEFERRED;
    if (g->sent == g->send_len && !g->hold_end) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (g->trailer.name) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            assert_int_equal(nghttp2_submit_trailer(s, id, &g->trailer, 1), 0);
        }
    }
    return (ssize_t)n;
}

static inline void set_body(struct got *g, const char *body, size_t len, bool hold) {
    g->send = body;
    g->send_len = len;
    g->sent = 0;
    g->hold_end = hold;
}

static inline int32_t ask(struct net *n, const nghttp2_nv *f, size_t nf, const char *body, size_t len, bool hold) {
    int32_t id = (int32_t)nghttp2_session_get_next_stream_id(n->client.session);
    nghttp2_data_provider p = {.source.ptr = stream(&n->client, id), .read_callback = give};

    set_body(stream(&n->client, id), body, len, hold);
    assert_int_equal(nghttp2_submit_request(n->client.session, NULL, f, nf, body ? &p : NULL, NULL), id);
    pump(n);
    return id;
}

static inline void answer(struct net *n, int32_t id, const nghttp2_nv *f, size_t nf, const char *body, size_t len, bool hold) {
    nghttp2_data_provider p = {.source.ptr = stream(&n->server, id), .read_callback = give};

    set_body(stream(&n->server, id), body, len, hold);
    assert_int_equal(nghttp2_submit_response(n->server.session, id, f, nf, body ? &p : NULL), 0);
    pump(n);
}

static inline void more(struct net *n, struct peer *p, int32_t id, const char *body, bool hold) {
    set_body(stream(p, id), body, strlen(body), hold);
    assert_int_equal(nghttp2_session_resume_data(p->session, id), 0);
    pump(n);
}
