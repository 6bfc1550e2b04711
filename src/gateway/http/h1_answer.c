/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of our own: refusals, and what a hook says in the server's place. */
#include <errno.h>

#include "gateway/http/h1_priv.h"
#include "gateway/http/refuse.h"

enum { REFUSAL_MAX = 64 * 1024 };

const char *h1_words_of(int status) {
    static const struct {
        int status;
        const char *words;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].words;
    return status < 400 ? "Answer" : "Refused";
}

/* May the connection go on? Only if it is known, and not far, where the next request starts. */
static bool can_keep(const struct h1 *h, int status) {
    const struct h1_side *s = &h->side[HTTPX_TO_SERVER];

    if (!h->keep || status == 413 || s->eof || s->state == H1_COLLECT)
        return false;
    if (h->whole)
        return true;
    return !s->head.chunked && (s->head.length == 0 || (s->head.length <= HTTPX_DISCARD_MAX && !s->head.expect));
}

static void write_reply(struct h1 *h, const struct httpx_reply *reply, bool keep) {
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT], 0);

    buf_addf(b, "HTTP/1.1 %d %s\r\n", reply->status, h1_words_of(reply->status));
    buf_addf(b, "Content-Type: %s\r\n", reply->type);
    buf_addf(b, "Content-Length: %zu\r\nCache-Control: no-store\r\n", reply->len);
    if (reply->status == 405)
        buf_adds(b, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
    if (reply->code)
        buf_addf(b, "Bawn-Code: %s\r\n", reply->code);
    buf_addf(b, "Connection: %s\r\n\r\n", keep ? "keep-alive" : "close");
    if (!h->head_only)
        buf_add(b, reply->body, reply->len);
    httpx_note_answer(&h->x, h->id, reply->status);
}

void h1_reply(struct h1 *h, const struct httpx_reply *reply) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];
    bool keep = can_keep(h, reply->status);

    write_reply(h, reply, keep);
    h1_forget(h);
    if (h->judged)
        httpx_note_end(&h->x, h->id);
    h->judged = false;
    buf_done(&h->collected);
    if (!keep) {
        h1_end(h);
    } else if (s->head.length && !h->whole) {
        h1_start_body(s, H1_LENGTH, s->head.length);
        s->state = H1_DROP;
    } else {
        h1_head_clear(&s->head);
        s->state = H1_HEAD;
    }
}

void h1_refuse(struct h1 *h, const struct policy_verdict *v, int status) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(REFUSAL_MAX);
    bool json = httpx_wants_json(&h->side[HTTPX_TO_SERVER].head.fields);

    refuse_body(v, h->x.host.text, h->x.opts.port, json, &body);
    h1_reply(h, &(struct httpx_reply){.status = status ? status : refuse_status(v),
                                      .type = json ? "application/json" : "text/plain; charset=utf-8",
                                      .code = policy_codes[v->code].name,
                                      .body = buf_str(&body),
                                      .len = body.len});
}

void h1_refuse_for(struct h1 *h, const struct httpx_refusal *why) {
    const struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;
    struct policy_verdict v;
    int status = httpx_note_refusal(&h->x, h->id, head->method ? head->method : "", h->x.req.path.text, why, &v);

    h1_refuse(h, &v, status);
}

/* Has the client got nothing of an answer to its request yet? */
static bool can_answer(const struct h1 *h) {
    enum h1_state s = h->side[HTTPX_TO_CLIENT].state;

    return h->side[HTTPX_TO_SERVER].state != H1_DROP && (s == H1_IDLE || s == H1_HEAD);
}

int h1_bad_request(struct h1 *h, const struct httpx_refusal *why) {
    h->keep = false;
    if (can_answer(h))
        h1_refuse_for(h, why);
    else
        h1_end(h);
    return -EPROTO;
}

void h1_stop_request(struct h1 *h, const struct policy_verdict *v) {
    h->keep = false;
    if (can_answer(h))
        h1_refuse(h, v, 0);
    else
        h1_end(h);
}

void h1_too_large(struct h1 *h) {
    struct httpx_refusal why = {0};

    httpx_refuse(&why, 413, POLICY_BODY_TOO_LARGE, "The rule for this request limits its body");
    h1_bad_request(h, &why);
}

int h1_stop_answer(struct h1 *h, const struct policy_verdict *v) {
    h->keep = false;
    if (can_answer(h))
        h1_refuse(h, v, 502);
    h1_end(h);
    return -EPROTO;
}

int h1_bad_response(struct h1 *h, const char *why) {
    struct policy_verdict v;

    policy_refuse(POLICY_NOT_HTTP, h->x.host.text, NULL, &v);
    snprintf(v.reason, sizeof v.reason, "%s: The server gave no answer that can be passed on. %s.", h->x.host.text, why);
    snprintf(v.hint, sizeof v.hint, "The request was allowed; the fault is the server's. Try again later.");
    return h1_stop_answer(h, &v);
}
