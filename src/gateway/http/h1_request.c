/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests, HTTP/1: checked, judged, written anew. */
#include <errno.h>
#include <strings.h>

#include "base/str.h"
#include "gateway/http/h1_priv.h"

enum { LINES_MAX = HTTPX_METHOD_MAX + HTTPX_AUTHORITY_MAX + 256 }; /* of a request, but for its target and fields */

/* Where the path starts in "http://host/path"; NULL: *why says why. */
static const char *skip_authority(struct h1 *h, const char *target, struct httpx_refusal *why) {
    const char *scheme = h->x.opts.tls ? "https://" : "http://", *authority = target + strlen(scheme), *path;

    if (strncasecmp(target, scheme, strlen(scheme)) != 0) {
        httpx_refuse(why, 400, POLICY_PATH_INVALID, "The request's target is neither a path nor a URI of this connection");
        return NULL;
    }
    path = authority + strcspn(authority, "/?#");
    return httpx_check_authority(&h->x, authority, (size_t)(path - authority), why) ? path : NULL;
}

static bool check_target(struct h1 *h, const struct h1_head *head, struct httpx_refusal *why) {
    struct httpx_request *req = &h->x.req;
    const char *path = head->target;

    if (h->x.opts.proxied || (path[0] != '/' && !str_eq(path, "*"))) {
        path = skip_authority(h, path, why);
        if (!path)
            return false;
        if (path[0] == 0)
            path = str_eq(head->method, "OPTIONS") ? "*" : "/";
    }
    return httpx_check_target(head->method, path, strlen(path), &req->path, &req->query, why);
}

static bool check_request(struct h1 *h, const struct h1_head *head, struct httpx_refusal *why) {
    bool many = false;
    const struct http_header *host = http_head_one(&head->fields, HTTP_NAME_HOST, &many);

    if (many || (!host && head->minor == 1))
        return httpx_refuse(why, 400, POLICY_NOT_HTTP, "There is not exactly one Host header");
    if (host && !httpx_check_authority(&h->x, host->value, host->value_len, why))
        return false;
    return httpx_check_method(head->method, why) && check_target(h, head, why);
}

void h1_forget(struct h1 *h) {
    struct http_head *fields = &h->side[HTTPX_TO_SERVER].head.fields;

    if (!fields->secrets)
        return;
    http_head_wipe(fields);
    h->x.req.query = "";
}

static struct buf *request_buf(struct h1 *h, const struct h1_head *head) {
    struct http_queue *q = &h->x.out[HTTPX_TO_SERVER];

    if (!head->fields.secrets)
        return http_queue_buf(q, LINES_MAX);
    h->gave_secret = true;
    return http_queue_secret_buf(q, LINES_MAX + h->x.req.path.len + strlen(h->x.req.query) + http_head_size(&head->fields));
}

static void write_request(struct h1 *h) {
    const struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;
    const struct httpx_request *req = &h->x.req;
    struct buf *b = request_buf(h, head);

    buf_adds(b, head->method);
    buf_addc(b, ' ');
    buf_add(b, req->path.text, req->path.len);
    buf_adds(b, req->query);
    buf_adds(b, " HTTP/1.1\r\nHost: ");
    buf_adds(b, h->x.authority);
    buf_adds(b, "\r\n");
    http_head_write(&head->fields, b);
    if (head->has_length)
        buf_addf(b, "Content-Length: %llu\r\n", (unsigned long long)head->length);
    if (head->chunked)
        buf_adds(b, "Transfer-Encoding: chunked\r\n");
    if (h->upgrade)
        buf_adds(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    else if (!h->keep)
        buf_adds(b, "Connection: close\r\n");
    buf_adds(b, "\r\n");
    if (head->fields.secrets)
        http_queue_secret_end(&h->x.out[HTTPX_TO_SERVER]);
    h1_forget(h);
}

static bool has_body(const struct h1_head *head) {
    return head->chunked || head->length > 0;
}

static void start_request_body(struct h1_side *s) {
    h1_start_body(s, s->head.chunked ? H1_CHUNKED : H1_LENGTH, s->head.length);
    s->write_chunked = s->head.chunked;
}

void h1_allow(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER], *server = &h->side[HTTPX_TO_CLIENT];

    if (httpx_too_large(&h->verdict, MAX_OF(s->head.length, h->sent))) {
        h1_too_large(h);
        return;
    }
    if (server->eof) {
        h1_bad_response(h, "The server closed the connection before the request was allowed");
        return;
    }
    write_request(h);
    server->state = H1_HEAD;
    if (h->collecting) {
        h1_pass_collected(h);
        return;
    }
    start_request_body(s);
    s->state = has_body(&s->head) ? H1_BODY : H1_DONE;
}

/* The server does not know of the request yet, so it is ours to say that the body may come. */
static void collect_body(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];
    struct httpx_refusal why = {0};

    h->collecting = true;
    if (!httpx_check_collect(s->head.length, &why)) {
        h1_bad_request(h, &why);
        return;
    }
    start_request_body(s);
    if (!has_body(&s->head)) {
        h1_collected(h);
        return;
    }
    s->state = H1_COLLECT;
    if (!h->old_client && httpx_waits_for_100(&s->head.fields)) {
        buf_adds(http_queue_buf(&h->x.out[HTTPX_TO_CLIENT], 0), "HTTP/1.1 100 Continue\r\n\r\n");
        http_head_remove(&s->head.fields, "expect");
    }
}

static void judge_request(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];
    struct httpx_request *req = &h->x.req;
    enum httpx_answer answer;

    req->id = h->id;
    req->method = s->head.method;
    req->has_body = has_body(&s->head);
    req->body_len = s->head.chunked ? UINT64_MAX : s->head.length;
    req->upgrade = h->upgrade;
    req->covered = false;
    h->verdict = (struct policy_verdict){0};
    h->judged = true;
    answer = httpx_judge(&h->x, &h->verdict);
    h->gave_secret = req->covered;
    switch (answer) {
    case HTTPX_ALLOW:
        h1_allow(h);
        return;
    case HTTPX_DENY:
        h1_refuse(h, &h->verdict, 0);
        return;
    case HTTPX_WAIT:
        s->state = H1_WAIT;
        return;
    case HTTPX_COLLECT:
        collect_body(h);
        return;
    }
    BUG("an answer that is none");
}

/* Some clients end a body with CRLF and do not count it (RFC 9112, 2.2). It is not passed on; a second one is refused. */
static bool skip_empty_line(struct h1 *h, int whole) {
    struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;

    h->skipped = whole > 0 && !h->skipped && str_eq(buf_str(&head->raw), "\r\n");
    if (h->skipped)
        h1_head_clear(head);
    return h->skipped;
}

int h1_take_request_head(struct h1 *h, const char *p, size_t n, size_t *ret_used) {
    struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;
    struct httpx_refusal why = {0};
    int r;

    if (head->raw.len == 0 && !h->skipped) {
        h->id++;
        h->sent = 0;
        h->head_only = h->upgrade = h->judged = h->collecting = h->whole = h->gave_secret = false;
        h->x.req.path.text[0] = 0;
    }
    r = h1_head_take(head, p, n, ret_used, &why);
    if (r == 0 || skip_empty_line(h, r))
        return 0;
    if (r < 0 || !h1_head_parse_request(head, &why))
        return h1_bad_request(h, &why);
    h->old_client = head->minor == 0;
    h->keep = !head->close && !h->old_client && !h->x.opts.proxied && !h->x.opts.once;
    h->head_only = str_eq(head->method, "HEAD");
    h->upgrade = head->websocket && str_eq(head->method, "GET") && !h->old_client && !head->chunked && head->length == 0;
    if (!check_request(h, head, &why)) {
        h1_refuse_for(h, &why);
        return 0;
    }
    http_head_strip(&head->fields);
    judge_request(h);
    return 0;
}
