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
    [POLICY_QUOTA] = 429,
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

/* Why, in a few words. Rules have harmless names (rule_read.c). */
static void add_cause(const struct policy_verdict *v, struct buf *b) {
    static const char *const words[POLICY_CODES] = {
        [POLICY_DENIED_OFF] = "there is no network",
        [POLICY_DENIED_HOST] = "no rule allows it",
        [POLICY_DENIED_PORT] = "no rule allows this port",
        [POLICY_DENIED_METHOD] = "no rule allows this method",
        [POLICY_DENIED_PATH] = "no rule allows this path",
        [POLICY_DENIED_ADDRESS] = "its address is not public",
        [POLICY_DENIED_UNANSWERED] = "the user did not say yes",
        [POLICY_NOT_HANDED_OUT] = "no rule allows this address",
        [POLICY_NO_ADDRESS] = "the name has no address",
    };

    if (v->rule && v->code != POLICY_DENIED_UNANSWERED)
        buf_addf(b, "rule '%s' denies it", v->rule->id);
    else
        buf_adds(b, words[v->code] ? words[v->code] : policy_codes[v->code].name);
}

/* Allowed, and something outside went wrong. */
static bool is_failure(enum policy_code code) {
    return code == POLICY_NO_ADDRESS || code == POLICY_UNREACHABLE || code == POLICY_NOT_TRUSTED;
}

void refuse_line(const struct policy_verdict *v, const char *host, uint16_t port, char out[static REFUSE_LINE_SIZE]) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(HOST_SHOWN_MAX), b = BUF_INIT(HOST_SHOWN_MAX + REFUSE_LINE_SIZE);

    buf_add_printable(&shown, host); /* too long to be a host: "this" */
    buf_addf(&b, "Bawn %s ", is_failure(v->code) ? "cannot reach" : "denied");
    buf_adds(&b, buf_ok(&shown) && shown.len && shown.len <= HOST_TEXT_MAX ? buf_str(&shown) : "this");
    if (port)
        buf_addf(&b, ":%u", port);
    buf_adds(&b, " (");
    add_cause(v, &b);
    buf_adds(&b, "), see " REFUSE_WHY);
    snprintf(out, REFUSE_LINE_SIZE, "%s", buf_str(&b));
}

void refuse_body(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *b) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(HOST_SHOWN_MAX); /* too long to be a host: "" */
    char line[REFUSE_LINE_SIZE];

    refuse_line(v, host, port, line);
    buf_add_printable(&shown, host);
    if (json) {
        buf_adds(b, "{\"error\": ");
        policy_verdict_add_json(v, buf_ok(&shown) ? buf_str(&shown) : "", port, line, b);
        buf_adds(b, "}\n");
    } else {
        buf_addf(b, "%s\n%s\n%s\n(%s)\n", line, v->reason, v->hint, policy_codes[v->code].name);
    }
}

struct httpx_reply refuse_reply(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *body) {
    struct httpx_reply reply;

    refuse_body(v, host, port, json, body);
    reply = (struct httpx_reply){
        .status = refuse_status(v),
        .type = json ? "application/json" : "text/plain; charset=utf-8",
        .code = policy_codes[v->code].name,
        .body = buf_str(body),
        .len = body->len,
    };
    refuse_line(v, host, port, reply.words);
    return reply;
}

void http_reply_write(const struct httpx_reply *r, bool keep, bool with_body, struct buf *b) {
    buf_addf(b, "HTTP/1.1 %d %s\r\n", r->status, r->words[0] ? r->words : http_words_of(r->status));
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
