/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "gateway/http/h1_priv.h"

enum { FRAMING_MAX = 32, PIECE_KEPT = 64 * 1024 };

static void write_piece(struct h1 *h, enum httpx_way way, const char *p, size_t n) {
    struct buf *b = http_queue_buf(&h->x.out[way], n + FRAMING_MAX);

    if (!h->side[way].write_chunked) {
        buf_add(b, p, n);
        return;
    }
    buf_addf(b, "%zx\r\n", n);
    buf_add(b, p, n);
    buf_add(b, "\r\n", 2);
}

static void write_end(struct h1 *h, enum httpx_way way) {
    struct h1_side *s = &h->side[way];
    struct buf *b;

    if (!s->write_chunked)
        return;
    b = http_queue_buf(&h->x.out[way], FRAMING_MAX + http_head_size(&s->trailers.fields));
    buf_adds(b, "0\r\n");
    http_head_write(&s->trailers.fields, b);
    buf_adds(b, "\r\n");
}

static void keep_piece(struct h1 *h, const char *p, size_t n) {
    buf_add(&h->collected, p, n);
    if (buf_ok(&h->collected))
        return;
    h->x.out[HTTPX_TO_SERVER].b.failed = true; /* no memory: httpx_data() says so */
    h1_end(h);
}

static void send_piece(struct h1 *h, const char *p, size_t n, bool last) {
    struct httpx_refusal why = {0};
    bool collect = h->side[HTTPX_TO_SERVER].state == H1_COLLECT;

    h->sent += n;
    if (httpx_too_large(&h->verdict, h->sent))
        h1_too_large(h);
    else if (collect && !httpx_check_collect(h->sent, &why))
        h1_bad_request(h, &why);
    else if (!httpx_sending(&h->x, h->id, p, n, last))
        h1_stop_request(h, &h->x.why);
    else if (collect)
        keep_piece(h, p, n);
    else
        write_piece(h, HTTPX_TO_SERVER, p, n);
}

static struct buf *clear_piece(struct h1 *h) {
    if (h->piece.cap > PIECE_KEPT)
        buf_done(&h->piece);
    buf_clear(&h->piece);
    return &h->piece;
}

/* What a hook makes of bytes for the client. */
static const struct buf *ask_hook(struct h1 *h, const char *p, size_t n, bool end) {
    const struct httpx_hooks *hooks = &h->x.opts.hooks;

    clear_piece(h);
    hooks->receiving(hooks->arg, h->id, (const uint8_t *)p, n, end, &h->piece);
    if (!buf_ok(&h->piece))
        h->x.out[HTTPX_TO_CLIENT].b.failed = true;
    return &h->piece;
}

/* In HTTP/1 a byte too many would be the next answer's first. */
static void check_length(struct h1_side *s, size_t n, bool end) {
    if (!s->counted)
        return;
    if (n > s->owed || (end && n != s->owed))
        BUG("an answer has another length than was said");
    s->owed -= n;
}

static void receive_piece(struct h1 *h, const char *p, size_t n, bool end) {
    if (h->x.opts.hooks.receiving) {
        const struct buf *b = ask_hook(h, p, n, end);

        if (!buf_ok(b))
            return;
        p = b->data;
        n = b->len;
        check_length(&h->side[HTTPX_TO_CLIENT], n, end);
    }
    if (n)
        write_piece(h, HTTPX_TO_CLIENT, p, n);
}

bool h1_pass_held(struct h1 *h) {
    const struct httpx_hooks *hooks = &h->x.opts.hooks;
    bool more = hooks->pause(hooks->arg, h->id, clear_piece(h));

    if (!buf_ok(&h->piece)) {
        h->x.out[HTTPX_TO_CLIENT].b.failed = true;
        return false;
    }
    check_length(&h->side[HTTPX_TO_CLIENT], h->piece.len, false);
    if (h->piece.len)
        write_piece(h, HTTPX_TO_CLIENT, h->piece.data, h->piece.len);
    return more;
}

/* Length alone ends a body that has one: its last byte must not be there before the hook has seen the end. */
static void pass_piece(struct h1 *h, enum httpx_way way, const char *p, size_t n) {
    const struct h1_side *s = &h->side[way];

    if (n == 0 || s->state == H1_DROP)
        return;
    if (way == HTTPX_TO_SERVER)
        send_piece(h, p, n, s->body == H1_LENGTH && s->left == 0);
    else
        receive_piece(h, p, n, false);
}

void h1_collected(struct h1 *h) {
    const struct httpx_hooks *hooks = &h->x.opts.hooks;

    if (!hooks->collected)
        BUG("a body that nobody wants to see");
    h->side[HTTPX_TO_SERVER].state = H1_WAIT;
    h->whole = true;
    hooks->collected(hooks->arg, h->id, (const uint8_t *)buf_str(&h->collected), h->collected.len);
}

void h1_pass_collected(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];

    if (h->collected.len)
        write_piece(h, HTTPX_TO_SERVER, h->collected.data, h->collected.len);
    buf_done(&h->collected);
    s->state = H1_BODY;
    if (!h->whole)
        return;
    write_end(h, HTTPX_TO_SERVER);
    h1_head_clear(&s->trailers);
    s->state = H1_DONE;
}

static int request_end(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];

    if (s->body == H1_CHUNKED && !httpx_sending_end(&h->x, h->id, &s->trailers.fields)) {
        h1_stop_request(h, &h->x.why);
        return 0;
    }
    if (s->state == H1_COLLECT) {
        h1_collected(h);
        return 0;
    }
    write_end(h, HTTPX_TO_SERVER);
    h1_head_clear(&s->trailers);
    s->state = H1_DONE;
    h1_exchange_done(h);
    return 0;
}

static int answer_end(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_CLIENT];

    if (h->x.opts.hooks.receiving)
        receive_piece(h, NULL, 0, true);
    if (s->trailers.fields.len && !httpx_answer_head(&h->x, h->id, 0, &s->trailers.fields))
        return h1_stop_answer(h, &h->x.why);
    write_end(h, HTTPX_TO_CLIENT);
    h1_head_clear(&s->trailers);
    s->state = H1_DONE;
    h1_exchange_done(h);
    return 0;
}

int h1_body_end(struct h1 *h, enum httpx_way way) {
    struct h1_side *s = &h->side[way];

    if (s->state != H1_DROP)
        return way == HTTPX_TO_SERVER ? request_end(h) : answer_end(h);
    h1_head_clear(&s->trailers); /* the answer is ours and through */
    h1_head_clear(&s->head);
    s->state = H1_HEAD;
    return 0;
}

static int bad_body(struct h1 *h, enum httpx_way way, const struct httpx_refusal *why) {
    return way == HTTPX_TO_SERVER ? h1_bad_request(h, why) : h1_bad_response(h, why->why);
}

int h1_take_body(struct h1 *h, enum httpx_way way, const char *p, size_t n, size_t *ret_used) {
    struct h1_side *s = &h->side[way];
    struct httpx_refusal why = {0};
    const char *piece = p;
    size_t len = n;

    *ret_used = 0;
    if (http_queue_len(&h->x.out[way]) >= HTTPX_BUFFER)
        return 0;
    if (s->body == H1_CHUNKED) {
        if (h1_chunk_take(&s->chunk, p, n, ret_used, &piece, &len, &s->trailers, &why) < 0)
            return bad_body(h, way, &why);
    } else {
        len = s->body == H1_LENGTH ? MIN_OF(s->left, (uint64_t)n) : n;
        s->left -= s->body == H1_LENGTH ? len : 0;
        *ret_used = len;
    }
    pass_piece(h, way, piece, len);
    if (s->state == H1_END)
        return 0;
    if ((s->body == H1_LENGTH && s->left == 0) || (s->body == H1_CHUNKED && s->chunk.state == CHUNK_END))
        return h1_body_end(h, way);
    return 0;
}

static void stop_tunnel(struct h1 *h) {
    struct httpx_refusal why = {0};
    struct policy_verdict v;

    httpx_refuse(&why, 413, POLICY_BODY_TOO_LARGE, "The rule for this request limits what is sent over its WebSocket");
    httpx_note_refusal(&h->x, h->id, h->side[HTTPX_TO_SERVER].head.method, h->x.req.path.text, &why, &v);
    h1_end(h);
}

void h1_take_tunnel(struct h1 *h, enum httpx_way way, const char *p, size_t n, size_t *ret_used) {
    size_t full = http_queue_len(&h->x.out[way]);
    size_t room = full < HTTPX_BUFFER ? HTTPX_BUFFER - full : 0;

    *ret_used = n = MIN_OF(n, room);
    if (n == 0)
        return;
    if (way == HTTPX_TO_CLIENT) {
        receive_piece(h, p, n, false);
        return;
    }
    h->sent += n;
    if (httpx_too_large(&h->verdict, h->sent))
        stop_tunnel(h);
    else if (httpx_sending(&h->x, h->id, p, n, false))
        http_queue_add(&h->x.out[way], p, n);
    else
        h1_end(h);
}

void h1_tunnel_end(struct h1 *h, enum httpx_way way) {
    if (h->x.finished[way])
        return;
    h->x.finished[way] = true;
    if (way == HTTPX_TO_CLIENT && h->x.opts.hooks.receiving)
        receive_piece(h, NULL, 0, true);
    else if (way == HTTPX_TO_SERVER && !httpx_sending(&h->x, h->id, NULL, 0, true))
        h1_end(h);
}
