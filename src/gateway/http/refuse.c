/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a denial. */
#include "gateway/http/refuse.h"

#include "base/buf.h"

enum { HOST_SHOWN_MAX = 4 * HOST_TEXT_MAX };

static const int statuses[POLICY_CODES] = {
    [POLICY_ALLOWED] = 500, /* never a denial */
    [POLICY_ASK] = 403,
    [POLICY_DENIED_OFF] = 403,
    [POLICY_DENIED_HOST] = 403,
    [POLICY_DENIED_PORT] = 403,
    [POLICY_DENIED_METHOD] = 403,
    [POLICY_DENIED_PATH] = 403,
    [POLICY_DENIED_ADDRESS] = 403,
    [POLICY_DENIED_UNANSWERED] = 403,
    [POLICY_NOT_HANDED_OUT] = 403,
    [POLICY_NAME_INVALID] = 400,
    [POLICY_PATH_INVALID] = 400,
    [POLICY_BODY_TOO_LARGE] = 413,
    [POLICY_NAME_MISMATCH] = 421,
    [POLICY_NOT_TLS] = 400,
    [POLICY_NOT_HTTP] = 400,
    [POLICY_NO_ADDRESS] = 502,
    [POLICY_UNREACHABLE] = 502,
    [POLICY_NOT_TRUSTED] = 502,
    [POLICY_CANNOT_LOOK] = 502,
    [POLICY_SECRET_MISPLACED] = 403,
    [POLICY_SECRET_UNAVAILABLE] = 502,
    [POLICY_LOGIN_OUTSIDE] = 403,
};

const char *http_words_of(int status) {
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

int refuse_status(const struct policy_verdict *v) {
    return statuses[v->code];
}

void refuse_body(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *b) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(HOST_SHOWN_MAX); /* too long to be a host: "" */

    buf_add_printable(&shown, host);
    if (json) {
        buf_adds(b, "{\"error\": ");
        policy_verdict_add_json(v, buf_ok(&shown) ? buf_str(&shown) : "", port, b);
        buf_adds(b, "}\n");
    } else {
        buf_addf(b, "Bawn denied this: %s\n%s\n(%s)\n", v->reason, v->hint, policy_codes[v->code].name);
    }
}

struct httpx_reply refuse_reply(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *body) {
    refuse_body(v, host, port, json, body);
    return (struct httpx_reply){
        .status = refuse_status(v),
        .type = json ? "application/json" : "text/plain; charset=utf-8",
        .code = policy_codes[v->code].name,
        .body = buf_str(body),
        .len = body->len,
    };
}

void http_reply_write(const struct httpx_reply *r, bool keep, bool with_body, struct buf *b) {
    buf_addf(b, "HTTP/1.1 %d %s\r\n", r->status, http_words_of(r->status));
    buf_addf(b, "Content-Type: %s\r\n", r->type);
    buf_addf(b, "Content-Length: %zu\r\nCache-Control: no-store\r\n", r->len);
    if (r->status == 405)
        buf_adds(b, "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n");
    if (r->code)
        buf_addf(b, "Bawn-Code: %s\r\n", r->code);
    buf_addf(b, "Connection: %s\r\n\r\n", keep ? "keep-alive" : "close");
    if (with_body)
        buf_add(b, r->body, r->len);
}

void refuse_http1(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *b) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(REFUSE_BODY_MAX);
    struct httpx_reply reply = refuse_reply(v, host, port, json, &body);

    http_reply_write(&reply, false, true, b);
}
