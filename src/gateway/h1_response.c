#include <errno.h>
#include <strings.h>

#include "gateway/h1_priv.h"

int h1_bad_response(struct h1 *h, const char *why) {
    struct policy_verdict v;
    enum h1_state s = h->side[HTTPX_TO_CLIENT].state;

    h->keep = false;
    if (s == H1_HEAD || s == H1_IDLE) {
        policy_refuse(POLICY_NOT_HTTP, h->x.host.text, NULL, &v);
        snprintf(v.reason, sizeof v.reason, "%s: The server gave no answer that can be passed on. %s.", h->x.host.text, why);
        snprintf(v.hint, sizeof v.hint, "The request was allowed; the fault is the server's. Try again later.");
        h1_refuse(h, &v, 502);
    }
    h1_end(h);
    return -EPROTO;
}

static void write_start(struct h1 *h, const struct h1_head *head, struct buf *b) {
    buf_addf(b, "HTTP/1.1 %d ", head->status);
    buf_adds(b, head->reason);
    buf_adds(b, "\r\n");
    http_head_write(&head->fields, b);
}

/* 100, 102, 103: the answer itself comes later. HTTP/1.0 does not know them. */
static void pass_interim(struct h1 *h, struct h1_head *head) {
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT]);

    if (!h->old_client) {
        write_start(h, head, b);
        buf_adds(b, "\r\n");
    }
    h1_head_clear(head);
}

static int pass_upgrade(struct h1 *h, struct h1_head *head) {
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT]);

    if (!h->upgrade || !head->websocket || head->chunked || head->length)
        return h1_bad_response(h, "It switched to a protocol that was not asked for");
    http_head_strip(&head->fields);
    write_start(h, head, b);
    buf_adds(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    httpx_note_answer(&h->x, h->id, 101);
    h->side[0].state = h->side[1].state = H1_TUNNEL;
    return 0;
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
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT]);
    enum h1_body kind = body_kind(h, head);

    if (head->close || (head->minor == 0 && !head->keep_alive) || kind == H1_UNTIL_EOF)
        h->keep = false;
    s->write_chunked = !h->old_client && (kind == H1_CHUNKED || kind == H1_UNTIL_EOF);
    write_start(h, head, b);
    if (head->has_length && head->status != 204)
        buf_addf(b, "Content-Length: %llu\r\n", (unsigned long long)head->length);
    if (s->write_chunked)
        buf_adds(b, "Transfer-Encoding: chunked\r\n");
    if (!h->keep)
        buf_adds(b, "Connection: close\r\n");
    buf_adds(b, "\r\n");
    httpx_note_answer(&h->x, h->id, head->status);
    h1_start_body(s, kind, head->length);
    s->state = kind == H1_NO_BODY || (kind == H1_LENGTH && head->length == 0) ? H1_DONE : H1_BODY;
    h1_exchange_done(h);
}

int h1_take_response_head(struct h1 *h, const char *p, size_t n, size_t *ret_used) {
    struct h1_head *head = &h->side[HTTPX_TO_CLIENT].head;
    struct httpx_refusal why = {0};
    int r = h1_head_take(head, p, n, ret_used, &why);

    if (r == 0)
        return 0;
    if (r < 0 || !h1_head_parse_response(head, &why))
        return h1_bad_response(h, why.why);
    if (head->status == 101)
        return pass_upgrade(h, head);
    http_head_strip(&head->fields);
    if (head->status < 200)
        pass_interim(h, head);
    else
        pass_answer(h, head);
    return 0;
}
