/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of requests, and calls of the hooks. */
#include <errno.h>
#include <strings.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/http/httpx_priv.h"
#include "gateway/http/refuse.h"

bool httpx_refuse(struct httpx_refusal *ret, int status, enum policy_code code, const char *why) {
    ret->status = status;
    ret->code = code;
    snprintf(ret->why, sizeof ret->why, "%.*s", (int)sizeof ret->why - 1, why);
    return false;
}

bool httpx_check_method(const char *method, struct httpx_refusal *ret) {
    static const struct {
        const char *method, *why;
    } refused[] = {
        {"TRACE", "TRACE would give back headers that were put in outside the sandbox"}, /* ATTACKS 55 */
        {"TRACK", "TRACK would give back headers that were put in outside the sandbox"},
        {"CONNECT", "A tunnel inside this connection would carry requests that cannot be checked"}, /* ATTACKS 48 */
        {"PRI", "HTTP/2 is agreed on in the TLS handshake only"},
        {POLICY_WEBSOCKET, "A WebSocket is opened with GET and an Upgrade header"}, /* the name that rules have for that */
    };

    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (strcasecmp(method, refused[i].method) == 0) /* there are servers that do not look at the case */
            return httpx_refuse(ret, 405, POLICY_DENIED_METHOD, refused[i].why);
    return true;
}

bool httpx_check_authority(const struct httpx *x, const char *text, size_t len, struct httpx_refusal *ret) {
    struct err err = {0};
    struct host h;
    uint16_t port;

    if (host_parse_with_port(text, len, &h, &port, &err) < 0)
        return httpx_refuse(ret, 400, POLICY_NAME_INVALID, err.msg);
    if (!host_eq(&h, &x->host))
        return httpx_refuse(ret, 421, POLICY_NAME_MISMATCH, "The request names another host than the connection");
    if (port && port != x->opts.port)
        return httpx_refuse(ret, 421, POLICY_NAME_MISMATCH, "The request names another port than that of the connection");
    return true;
}

bool httpx_check_query(const char *q, size_t len) {
    if (len > HTTPX_URI_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((uint8_t)q[i] <= 0x20 || (uint8_t)q[i] >= 0x7f || q[i] == '#')
            return false;
    return true;
}

bool httpx_check_target(const char *method, const char *target, size_t len, struct http_path *path, const char **ret_query,
                        struct httpx_refusal *ret) {
    struct err err = {0};

    if (len > HTTPX_URI_MAX)
        return httpx_refuse(ret, 414, POLICY_PATH_INVALID, "The request's target is too long");
    if (http_path_parse(target, len, path, &err) < 0)
        return httpx_refuse(ret, 400, POLICY_PATH_INVALID, err.msg);
    if (str_eq(path->text, "*") && !str_eq(method, "OPTIONS"))
        return httpx_refuse(ret, 400, POLICY_PATH_INVALID, "Only OPTIONS has the target '*'");
    if (!httpx_check_query(target + path->query, len - path->query))
        return httpx_refuse(ret, 400, POLICY_PATH_INVALID, "The query has a byte that no query has (encode it with %)");
    *ret_query = target + path->query;
    return true;
}

bool httpx_check_collect(uint64_t len, struct httpx_refusal *ret) {
    if (len <= HTTPX_COLLECT_MAX)
        return true;
    return httpx_refuse(ret, 413, POLICY_BODY_TOO_LARGE,
                        "The body has to be seen whole before it goes on, and has more than 4 MiB");
}

enum httpx_answer httpx_judge(struct httpx *x, struct policy_verdict *ret) {
    struct httpx_request *req = &x->req;
    struct httpx_refusal why;

    x->judged++;
    x->answering = false;
    if (!x->opts.trouble)
        return x->opts.hooks.judge(x->opts.hooks.arg, req, ret);
    httpx_refuse(&why, 502, POLICY_NOT_TRUSTED, x->opts.trouble);
    httpx_note_refusal(x, req->id, req->method, req->path.text, &why, ret);
    return HTTPX_DENY;
}

int httpx_note_refusal(struct httpx *x, uint32_t id, const char *method, const char *path, const struct httpx_refusal *why,
                       struct policy_verdict *ret) {
    policy_refuse(why->code, x->host.text, why->why, ret);
    if (x->opts.hooks.refused)
        x->opts.hooks.refused(x->opts.hooks.arg, id, method, path, ret, why->status);
    return why->status;
}

void httpx_note_answer(struct httpx *x, uint32_t id, int status) {
    x->answering = true;
    if (x->opts.hooks.answered)
        x->opts.hooks.answered(x->opts.hooks.arg, id, status);
}

void httpx_note_end(struct httpx *x, uint32_t id) {
    if (x->opts.hooks.ended)
        x->opts.hooks.ended(x->opts.hooks.arg, id);
}

bool httpx_sending(struct httpx *x, uint32_t id, const void *data, size_t len, bool end) {
    const struct httpx_hooks *hooks = &x->opts.hooks;

    return !hooks->sending || hooks->sending(hooks->arg, id, data, len, end, &x->why);
}

bool httpx_sending_end(struct httpx *x, uint32_t id, const struct http_head *trailers) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(2 * HTTPX_HEAD_MAX);

    if (!x->opts.hooks.sending)
        return true;
    http_head_write(trailers, &text);
    if (buf_ok(&text))
        return httpx_sending(x, id, buf_str(&text), text.len, true);
    policy_refuse(POLICY_NOT_HTTP, x->host.text, "there is no memory for the trailers", &x->why);
    return false;
}

bool httpx_answer_head(struct httpx *x, uint32_t id, int status, struct http_head *head) {
    const struct httpx_hooks *hooks = &x->opts.hooks;

    return !hooks->answer_head || hooks->answer_head(hooks->arg, id, status, head, &x->why);
}

bool httpx_wants_json(const struct http_head *h) {
    bool many = false;
    const struct http_header *accept = http_head_one(h, HTTP_NAME_ACCEPT, &many);

    return accept && strncasecmp(accept->value, "application/json", 16) == 0;
}

bool httpx_waits_for_100(const struct http_head *h) {
    bool many = false;
    const struct http_header *expect = http_head_one(h, HTTP_NAME_EXPECT, &many);

    return expect && strcasecmp(expect->value, "100-continue") == 0;
}
