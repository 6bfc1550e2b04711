#include <errno.h>
#include <strings.h>

#include "base/str.h"
#include "gateway/h1_priv.h"
#include "gateway/refuse.h"

enum { REFUSAL_MAX = 64 * 1024 };

static const char *words_of(int status) {
    static const struct {
        int status;
        const char *words;
    } reasons[] = {
        {400, "Bad Request"},         {403, "Forbidden"},       {405, "Method Not Allowed"},
        {413, "Content Too Large"},   {414, "URI Too Long"},    {417, "Expectation Failed"},
        {421, "Misdirected Request"}, {501, "Not Implemented"}, {431, "Request Header Fields Too Large"},
        {502, "Bad Gateway"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].words;
    return "Refused";
}

/* May the connection go on? Only if it is known, and not far, where the next request starts. */
static bool can_keep(const struct h1 *h, int status) {
    const struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;

    if (!h->keep || status == 413 || h->side[HTTPX_TO_SERVER].eof)
        return false;
    return !head->chunked && (head->length == 0 || (head->length <= HTTPX_DISCARD_MAX && !head->expect));
}

static void write_refusal(struct h1 *h, const struct policy_verdict *v, int status, bool keep) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(REFUSAL_MAX);
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_CLIENT]);
    bool json = httpx_wants_json(&h->side[HTTPX_TO_SERVER].head.fields);

    refuse_body(v, h->x.host.text, h->x.opts.port, json, &body);
    buf_addf(b, "HTTP/1.1 %d %s\r\n", status, words_of(status));
    buf_addf(b, "Content-Type: %s\r\n", json ? "application/json" : "text/plain; charset=utf-8");
    buf_addf(b, "Content-Length: %zu\r\nCache-Control: no-store\r\n", body.len);
    if (status == 405)
        buf_adds(b, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
    buf_addf(b, "Bawn-Code: %s\r\nConnection: %s\r\n\r\n", policy_codes[v->code].name, keep ? "keep-alive" : "close");
    if (!h->head_only)
        buf_add(b, buf_str(&body), body.len);
    httpx_note_answer(&h->x, h->id, status);
}

void h1_refuse(struct h1 *h, const struct policy_verdict *v, int status) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];
    bool keep;

    status = status ? status : refuse_status(v);
    keep = can_keep(h, status);
    write_refusal(h, v, status, keep);
    if (!keep) {
        h1_end(h);
    } else if (s->head.length) {
        h1_start_body(s, H1_LENGTH, s->head.length);
        s->state = H1_DROP;
    } else {
        h1_head_clear(&s->head);
        s->state = H1_HEAD;
    }
}

static void refuse_for(struct h1 *h, const struct httpx_refusal *why) {
    const struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;
    struct policy_verdict v;
    int status = httpx_note_refusal(&h->x, h->id, head->method ? head->method : "", h->x.req.path.text, why, &v);

    h1_refuse(h, &v, status);
}

/* Has the client got nothing of an answer to its request yet? */
static bool can_answer(const struct h1 *h) {
    enum h1_state s = h->side[HTTPX_TO_CLIENT].state;

    return s == H1_IDLE || s == H1_HEAD;
}

int h1_bad_request(struct h1 *h, const struct httpx_refusal *why) {
    h->keep = false;
    if (h->side[HTTPX_TO_SERVER].state == H1_DROP || !can_answer(h))
        h1_end(h);
    else
        refuse_for(h, why);
    return -EPROTO;
}

void h1_too_large(struct h1 *h) {
    struct httpx_refusal why = {0};

    httpx_refuse(&why, 413, POLICY_BODY_TOO_LARGE, "The rule for this request limits its body");
    h1_bad_request(h, &why);
}

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

static void write_request(struct h1 *h) {
    const struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;
    const struct httpx_request *req = &h->x.req;
    struct buf *b = http_queue_buf(&h->x.out[HTTPX_TO_SERVER]);

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
}

void h1_allow(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER], *server = &h->side[HTTPX_TO_CLIENT];
    const struct h1_head *head = &s->head;

    if (head->has_length && httpx_too_large(&h->verdict, head->length)) {
        h1_too_large(h);
        return;
    }
    if (server->eof) {
        h1_bad_response(h, "The server closed the connection before the request was allowed");
        return;
    }
    write_request(h);
    server->state = H1_HEAD;
    s->write_chunked = head->chunked;
    h1_start_body(s, head->chunked ? H1_CHUNKED : H1_LENGTH, head->length);
    s->state = head->chunked || head->length ? H1_BODY : H1_DONE;
}

static void judge(struct h1 *h) {
    struct h1_side *s = &h->side[HTTPX_TO_SERVER];
    struct httpx_request *req = &h->x.req;

    req->id = h->id;
    req->method = s->head.method;
    req->has_body = s->head.chunked || s->head.length > 0;
    req->body_len = s->head.chunked ? UINT64_MAX : s->head.length;
    req->upgrade = h->upgrade;
    h->verdict = (struct policy_verdict){0};
    switch (h->x.opts.hooks.judge(h->x.opts.hooks.arg, req, &h->verdict)) {
    case HTTPX_ALLOW:
        h1_allow(h);
        return;
    case HTTPX_DENY:
        h1_refuse(h, &h->verdict, 0);
        return;
    case HTTPX_WAIT:
        s->state = H1_WAIT;
        return;
    }
    BUG("an answer that is none");
}

int h1_take_request_head(struct h1 *h, const char *p, size_t n, size_t *ret_used) {
    struct h1_head *head = &h->side[HTTPX_TO_SERVER].head;
    struct httpx_refusal why = {0};
    int r;

    if (head->raw.len == 0) {
        h->id++;
        h->sent = 0;
        h->head_only = h->upgrade = false;
        h->x.req.path.text[0] = 0;
    }
    r = h1_head_take(head, p, n, ret_used, &why);
    if (r == 0)
        return 0;
    if (r < 0 || !h1_head_parse_request(head, &why))
        return h1_bad_request(h, &why);
    h->old_client = head->minor == 0;
    h->keep = !head->close && !h->old_client && !h->x.opts.proxied;
    h->head_only = str_eq(head->method, "HEAD");
    h->upgrade = head->websocket && str_eq(head->method, "GET") && !h->old_client && !head->chunked && head->length == 0;
    if (!check_request(h, head, &why)) {
        refuse_for(h, &why);
        return 0;
    }
    http_head_strip(&head->fields);
    judge(h);
    return 0;
}
