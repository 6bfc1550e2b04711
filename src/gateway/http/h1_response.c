/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <strings.h>

#include "gateway/http/h1_priv.h"

/* A server that was told a secret may say it in any place, also in words that no hook sees. */
static void write_start(struct h1 *h, const struct h1_head *head, struct buf *b) {
    buf_addf(b, "HTTP/1.1 %d ", head->status);
    buf_adds(b, h->told ? h1_words_of(head->status) : head->reason);
    buf_adds(b, "\r\n");
    http_head_write(&head->fields, b);
}

/* 100, 102, 103: the answer itself comes later. HTTP/1.0 does not know them. */
static void pass_interim(struct h1 *h, struct h1_head *head) {
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT], 0);

    if (!h->old_client) {
        write_start(h, head, b);
        buf_adds(b, "\r\n");
    }
    h1_head_clear(head);
}

static void pass_upgrade(struct h1 *h, struct h1_head *head) {
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT], 0);

    write_start(h, head, b);
    buf_adds(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    httpx_note_answer(&h->x, h->id, 101);
    h->side[0].state = h->side[1].state = H1_TUNNEL;
    h->side[HTTPX_TO_CLIENT].counted = false;
}

static enum h1_body body_kind(const struct h1 *h, const struct h1_head *head) {
    if (h->head_only || head->status == 204 || head->status == 304)
        return H1_NO_BODY;
    if (head->chunked)
        return H1_CHUNKED;
    return head->has_length ? H1_LENGTH : H1_UNTIL_EOF;
}

static void pass_answer(struct h1 *h, struct h1_head *head) {
    struct h1_side *s = &h->side[HTTPX_TO_CLIENT];
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT], 0);
    enum h1_body kind = body_kind(h, head);
    bool say_length = head->has_length && head->status != 204;

    if (head->close || (head->minor == 0 && !head->keep_alive) || kind == H1_UNTIL_EOF)
        h->keep = false;
    s->write_chunked = !h->old_client && kind != H1_NO_BODY && !say_length;
    write_start(h, head, b);
    if (say_length)
        buf_addf(b, "Content-Length: %llu\r\n", (unsigned long long)head->length);
    if (s->write_chunked)
        buf_adds(b, "Transfer-Encoding: chunked\r\n");
    if (!h->keep)
        buf_adds(b, "Connection: close\r\n");
    buf_adds(b, "\r\n");
    httpx_note_answer(&h->x, h->id, head->status);
    h1_start_body(s, kind, head->length);
    s->counted = say_length;
    s->owed = head->length;
    s->state = kind == H1_NO_BODY || (kind == H1_LENGTH && head->length == 0) ? H1_DONE : H1_BODY;
    h1_exchange_done(h);
}

static int pass(struct h1 *h, struct h1_head *head) {
    http_head_strip(&head->fields);
    if (!httpx_answer_head(&h->x, h->id, head->status, &head->fields))
        return h1_stop_answer(h, &h->x.why);
    if (head->status == 101)
        pass_upgrade(h, head);
    else if (head->status < 200)
        pass_interim(h, head);
    else
        pass_answer(h, head);
    return 0;
}

int h1_take_response_head(struct h1 *h, const char *p, size_t n, size_t *ret_used) {
    struct h1_head *head = &h->side[HTTPX_TO_CLIENT].head;
    struct httpx_refusal why = {0};
    int r = h1_head_take(head, p, n, ret_used, &why);

    if (r == 0)
        return 0;
    if (r < 0 || !h1_head_parse_response(head, &why))
        return h1_bad_response(h, why.why);
    if (head->status == 101 && (!h->upgrade || !head->websocket || head->chunked || head->length))
        return h1_bad_response(h, "It switched to a protocol that was not asked for");
    return pass(h, head);
}
