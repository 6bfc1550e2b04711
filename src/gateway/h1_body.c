#include <errno.h>

#include "gateway/h1_priv.h"

static void write_piece(struct h1 *h, enum httpx_way way, const char *p, size_t n) {
    struct buf *b = http_queue_buf(&h->x.out[way]);

    if (!h->side[way].write_chunked) {
        buf_add(b, p, n);
        return;
    }
    buf_addf(b, "%zx\r\n", n);
    buf_add(b, p, n);
    buf_add(b, "\r\n", 2);
}

static void pass_piece(struct h1 *h, enum httpx_way way, const char *p, size_t n) {
    if (n == 0 || h->side[way].state == H1_DROP)
        return;
    if (way == HTTPX_TO_SERVER) {
        h->sent += n;
        if (httpx_too_large(&h->verdict, h->sent)) {
            h1_too_large(h);
            return;
        }
    }
    write_piece(h, way, p, n);
}

int h1_body_end(struct h1 *h, enum httpx_way way) {
    struct h1_side *s = &h->side[way];
    bool dropped = s->state == H1_DROP;

    if (!dropped && s->write_chunked) {
        struct buf *b = http_queue_buf(&h->x.out[way]);

        buf_adds(b, "0\r\n");
        http_head_write(&s->trailers.fields, b);
        buf_adds(b, "\r\n");
    }
    h1_head_clear(&s->trailers);
    s->state = H1_DONE;
    if (dropped) { /* the answer is ours and through */
        h1_head_clear(&s->head);
        s->state = H1_HEAD;
    } else {
        h1_exchange_done(h);
    }
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
