/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a denial. */
#include "gateway/http/refuse.h"

#include "base/buf.h"

enum { BODY_MAX = 64 * 1024, HOST_SHOWN_MAX = 4 * HOST_TEXT_MAX };

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

static const struct {
    int status;
    const char *words;
} reasons[] = {{400, "Bad Request"},         {403, "Forbidden"},   {413, "Content Too Large"},
               {421, "Misdirected Request"}, {502, "Bad Gateway"}, {500, "Internal Server Error"}};

static const char *words_of(int status) {
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].words;
    BUG("a status without words");
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
        buf_addf(b, "Bawn refused this: %s\n%s\n(%s)\n", v->reason, v->hint, policy_codes[v->code].name);
    }
}

void refuse_http1(const struct policy_verdict *v, const char *host, uint16_t port, bool json, bool keep, struct buf *b) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(BODY_MAX);
    int status = refuse_status(v);

    refuse_body(v, host, port, json, &body);
    buf_addf(b, "HTTP/1.1 %d %s\r\n", status, words_of(status));
    buf_addf(b, "Content-Type: %s\r\n", json ? "application/json" : "text/plain; charset=utf-8");
    buf_addf(b, "Content-Length: %zu\r\nCache-Control: no-store\r\n", body.len);
    buf_addf(b, "Bawn-Code: %s\r\nConnection: %s\r\n\r\n", policy_codes[v->code].name, keep ? "keep-alive" : "close");
    buf_add(b, buf_str(&body), body.len);
}
