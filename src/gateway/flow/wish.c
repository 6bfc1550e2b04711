/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and answers requests for access. */
#include "gateway/flow/wish.h"

#include <jansson.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"

static bool wish_is_ours(const char *data, size_t len) {
    static const char *const begins[] = {"POST /request ", "POST http://bawn.internal/request ",
                                         "POST http://bawn.internal:80/request "};

    for (size_t i = 0; i < ARRAY_LEN(begins); i++)
        if (len >= strlen(begins[i]) && memcmp(data, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

/* The length of the body; -1: the head does not say it, or says it twice. Any Transfer-Encoding is not understood. */
static long wish_length(const char *head, size_t len) {
    static const char name[] = "content-length:", coding[] = "transfer-encoding:";
    const char *end = head + len;
    uint64_t n = 0;
    int found = 0;

    for (const char *line = head, *stop; line < end && (stop = memmem(line, (size_t)(end - line), "\r\n", 2)); line = stop + 2) {
        size_t at = sizeof name - 1;
        char digits[24];

        if (strncasecmp(line, coding, sizeof coding - 1) == 0)
            return -1;
        if ((size_t)(stop - line) <= at || strncasecmp(line, name, at) != 0)
            continue;
        while (line[at] == ' ')
            at++;
        snprintf(digits, sizeof digits, "%.*s", (int)(stop - line - (long)at), line + at);
        if (++found > 1 || parse_u64(digits, 0, WISH_BODY_MAX, &n, NULL) < 0)
            return -1;
    }
    return found ? (long)n : -1;
}

static const char *wish_take(const char *body, size_t len, struct gate_msg *ret) {
    CLEANUP(json_decrefp) json_t *v = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
    const char *kind = json_get_text(v, "kind"), *value = json_get_text(v, "value"), *reason = json_get_text(v, "reason");

    if (!json_is_object(v) || !kind[0] || !value[0] || !reason[0])
        return "send {\"kind\": \"network\", \"value\": \"HOST:PORT\", \"reason\": \"...\"}; kinds: network, path, package";
    if (strlen(kind) >= sizeof ret->method || strlen(value) >= sizeof ret->path)
        return "\"kind\" or \"value\" is too long";
    *ret = (struct gate_msg){.type = GATE_MSG_REQUEST};
    snprintf(ret->method, sizeof ret->method, "%s", kind);
    snprintf(ret->path, sizeof ret->path, "%s", value);
    snprintf(ret->pattern, sizeof ret->pattern, "%s", reason);
    return NULL;
}

enum wish_result wish_read(const uint8_t *data, size_t len, struct gate_msg *ret, const char **ret_why) {
    const char *text = (const char *)data, *end;
    long body;

    if (!wish_is_ours(text, len))
        return WISH_NOT;
    end = memmem(text, len, "\r\n\r\n", 4);
    if (!end)
        return len < 2 * WISH_BODY_MAX ? WISH_MORE : WISH_BAD;
    end += 4;
    body = wish_length(text, (size_t)(end - text) - 2);
    if (body < 0) {
        *ret_why = "the request needs one Content-Length, of at most 4096";
        return WISH_BAD;
    }
    if (len - (size_t)(end - text) < (size_t)body)
        return WISH_MORE;
    *ret_why = wish_take(end, (size_t)body, ret);
    return *ret_why ? WISH_BAD : WISH_OK;
}

void wish_answer(int status, const char *how, const char *said, struct buf *out) {
    static const char *const names[] = {"200 OK", "403 Forbidden", "400 Bad Request"};
    CLEANUP(buf_done) struct buf body = BUF_INIT(4096);
    struct jsonout j = {.to = &body};

    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "granted", status == 200);
    jsonout_text(&j, "how", how);
    jsonout_text(&j, "reason", said);
    jsonout_close(&j, '}');
    buf_addc(&body, '\n');
    buf_addf(out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n", names[status == 200 ? 0 : status == 403 ? 1 : 2]);
    buf_addf(out, "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n", body.len);
    buf_add(out, buf_str(&body), body.len);
}
