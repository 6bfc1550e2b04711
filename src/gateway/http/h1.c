/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1: bytes in, by the state of their side. */
#include <errno.h>

#include "gateway/http/h1_priv.h"

void h1_start_body(struct h1_side *s, enum h1_body body, uint64_t length) {
    s->body = body;
    s->left = length;
    s->chunk = (struct h1_chunk){0};
    h1_head_clear(&s->trailers);
}

void h1_end(struct h1 *h) {
    for (enum httpx_way way = 0; way < 2; way++) {
        h->side[way].state = H1_END;
        h->x.finished[way] = true;
    }
}

void h1_exchange_done(struct h1 *h) {
    struct h1_side *client = &h->side[HTTPX_TO_SERVER], *server = &h->side[HTTPX_TO_CLIENT];

    if (server->state != H1_DONE)
        return;
    if (!h->keep || server->eof) { /* also in the middle of a request: the server has said what it thinks of it, and goes */
        h1_end(h);
    } else if (client->state == H1_DONE) {
        h1_head_clear(&client->head);
        h1_head_clear(&server->head);
        client->state = H1_HEAD;
        server->state = H1_IDLE;
        h->judged = false;
        httpx_note_end(&h->x, h->id);
    }
}

/* Takes some of the bytes, or none if their time has not come. */
static int take_by_state(struct h1 *h, enum httpx_way way, const char *p, size_t n, size_t *ret_used) {
    *ret_used = 0;
    switch (h->side[way].state) {
    case H1_IDLE:
        h1_end(h); /* smuggled by the server, or its words before it hangs up: no request waits */
        return -EPROTO;
    case H1_HEAD:
        if (http_queue_len(&h->x.out[HTTPX_TO_CLIENT]) >= HTTPX_BUFFER)
            return 0; /* every head may bring an answer of ours */
        return way == HTTPX_TO_SERVER ? h1_take_request_head(h, p, n, ret_used) : h1_take_response_head(h, p, n, ret_used);
    case H1_BODY:
    case H1_COLLECT:
    case H1_DROP:
        return h1_take_body(h, way, p, n, ret_used);
    case H1_WAIT:
    case H1_DONE:
        return 0;
    case H1_TUNNEL:
        h1_take_tunnel(h, way, p, n, ret_used);
        return 0;
    case H1_END:
        *ret_used = n;
        return 0;
    }
    BUG("a side without a state");
}

static int take_some(struct h1 *h, enum httpx_way way, const char *p, size_t n, size_t *ret_used) {
    size_t total = 0, used;
    int r = 0;

    while (total < n) {
        r = take_by_state(h, way, p + total, n - total, &used);
        if (r < 0 || used == 0)
            break;
        total += used;
    }
    *ret_used = total;
    return r;
}

static bool is_undecided(const struct h1 *h) {
    enum h1_state s = h->side[HTTPX_TO_SERVER].state;

    return s == H1_WAIT || s == H1_COLLECT;
}

/* The source of these bytes will send no more, and all that it sent was used. */
static void act_on_eof(struct h1 *h, enum httpx_way way) {
    struct h1_side *s = &h->side[way];
    bool server = way == HTTPX_TO_CLIENT;

    switch (s->state) {
    case H1_IDLE:
        if (!is_undecided(h)) /* a request that waits for the user's answer gets one */
            h1_end(h);
        return;
    case H1_HEAD:
        /* A server that hangs up as the next request comes: so does the gate, and the client tries again. */
        if (server && h->id == 1)
            h1_bad_response(h, "The server closed the connection without an answer");
        else
            h1_end(h);
        return;
    case H1_BODY:
        if (server && s->body == H1_UNTIL_EOF)
            h1_body_end(h, way);
        else
            h1_end(h); /* cut off: the other side sees that the end is missing */
        return;
    case H1_COLLECT:
    case H1_DROP:
        h1_end(h);
        return;
    case H1_DONE: /* whether a client that says no more still wants its answer is the server's to judge, as without a gate */
        h->x.finished[way] = true;
        h->keep = false;
        h1_exchange_done(h);
        return;
    case H1_WAIT:
        h->keep = false;
        return;
    case H1_TUNNEL:
        h1_tunnel_end(h, way);
        return;
    case H1_END:
        return;
    }
}

/* What waited may have its time now. */
static int advance_all(struct h1 *h) {
    size_t used;
    bool again = true;

    while (again) {
        again = false;
        for (enum httpx_way way = 0; way < 2; way++) {
            struct http_queue *q = &h->side[way].waiting;

            if (http_queue_len(q)) {
                int r = take_some(h, way, (const char *)http_queue_bytes(q), http_queue_len(q), &used);

                if (r < 0)
                    return r;
                http_queue_drop(q, used);
                again |= used > 0;
            }
            if (h->side[way].eof && http_queue_len(q) == 0)
                act_on_eof(h, way);
        }
    }
    return 0;
}

static int advance(struct h1 *h) {
    int r;

    if (h->running)
        return 0;
    h->running = true;
    r = advance_all(h);
    h->running = false;
    return r;
}

static int h1_data(struct httpx *x, enum httpx_way way, const uint8_t *data, size_t len) {
    struct h1 *h = h1_of(x);
    struct http_queue *q = &h->side[way].waiting;
    size_t used = 0;
    int r;

    if (http_queue_len(q) == 0) {
        h->running = true;
        r = take_some(h, way, (const char *)data, len, &used);
        h->running = false;
        if (r < 0)
            return r;
    }
    http_queue_add(q, data + used, len - used);
    r = advance(h);
    return r < 0 || buf_ok(&q->b) ? r : -ENOMEM;
}

static void h1_eof(struct httpx *x, enum httpx_way way) {
    h1_of(x)->side[way].eof = true;
    advance(h1_of(x));
}

static bool h1_wants(const struct httpx *x, enum httpx_way way) {
    const struct h1_side *s = &((const struct h1 *)x)->side[way];

    return s->state == H1_END || (http_queue_len(&s->waiting) == 0 && http_queue_len(&x->out[way]) < HTTPX_BUFFER);
}

static void h1_wrote(struct httpx *x, enum httpx_way way) {
    struct h1 *h = h1_of(x);

    if (http_queue_len(&h->side[0].waiting) || http_queue_len(&h->side[1].waiting))
        advance(h);
}

static void h1_decide(struct httpx *x, uint32_t id, const struct policy_verdict *v) {
    struct h1 *h = h1_of(x);

    if (!is_undecided(h) || id != h->id)
        return;
    if (v->action == RULE_ALLOW) {
        h->verdict = *v;
        h1_allow(h);
    } else {
        h1_refuse(h, v, 0);
    }
    advance(h);
}

static struct http_head *h1_fields(struct httpx *x, uint32_t id) {
    struct h1 *h = h1_of(x);

    return is_undecided(h) && id == h->id ? &h->side[HTTPX_TO_SERVER].head.fields : NULL;
}

static int h1_set_query(struct httpx *x, uint32_t id, const char *query) {
    struct http_head *fields = h1_fields(x, id);
    char *copy;

    if (!fields)
        return -ENOENT;
    if (x->req.path.text[0] != '/')
        return -EINVAL;
    copy = http_head_keep_secret(fields, query, strlen(query), "", 0);
    if (!copy)
        return -ENOMEM;
    x->req.query = copy;
    return 0;
}

static void h1_answer(struct httpx *x, uint32_t id, const struct httpx_reply *reply) {
    struct h1 *h = h1_of(x);

    if (!is_undecided(h) || id != h->id)
        return;
    h1_reply(h, reply);
    advance(h);
}

static bool h1_pause(struct httpx *x) {
    struct h1 *h = h1_of(x);
    enum h1_state state = h->side[HTTPX_TO_CLIENT].state;

    return (state == H1_BODY || (state == H1_TUNNEL && !x->finished[HTTPX_TO_CLIENT])) && h1_pass_held(h);
}

static bool h1_busy(const struct httpx *x) {
    enum h1_state s = ((const struct h1 *)x)->side[HTTPX_TO_SERVER].state;

    return s == H1_WAIT || s == H1_COLLECT || s == H1_BODY || s == H1_DONE || s == H1_TUNNEL;
}

static void h1_free(struct httpx *x) {
    struct h1 *h = h1_of(x);

    for (size_t i = 0; i < 2; i++) {
        http_queue_done(&h->side[i].waiting);
        h1_head_done(&h->side[i].head);
        h1_head_done(&h->side[i].trailers);
    }
    buf_done(&h->collected);
    buf_done(&h->piece);
    httpx_done(x);
    free(h);
}

static const struct httpx_ops h1_ops = {
    .data = h1_data,
    .eof = h1_eof,
    .wants = h1_wants,
    .wrote = h1_wrote,
    .decide = h1_decide,
    .head = h1_fields,
    .set_query = h1_set_query,
    .answer = h1_answer,
    .pause = h1_pause,
    .busy = h1_busy,
    .free = h1_free,
};

struct httpx *h1_new(const struct httpx_opts *opts) {
    struct h1 *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    httpx_init(&h->x, &h1_ops, opts);
    h->collected = (struct buf)BUF_INIT(HTTPX_COLLECT_MAX);
    h->piece = (struct buf)BUF_INIT(HTTPX_QUEUE_MAX);
    for (size_t i = 0; i < 2; i++) {
        http_queue_init(&h->side[i].waiting);
        h1_head_init(&h->side[i].head);
        h1_head_init(&h->side[i].trailers);
    }
    h->side[HTTPX_TO_SERVER].state = H1_HEAD;
    h->x.req.head = &h->side[HTTPX_TO_SERVER].head.fields;
    return &h->x;
}
