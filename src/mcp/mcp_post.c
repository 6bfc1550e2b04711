/* SPDX-License-Identifier: Apache-2.0 */
/* What a request of HTTP asks for: who it is, which session, which messages. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "mcp/mcp_http.h"
#include "mcp/mcp_priv.h"
#include "mcp/rpc.h"
#include "os/clock.h"
#include "proto/api/apifield.h"
#include "proto/api/mcproute.h"

/* What the messages of a POST are. */
struct mcp_scan {
    struct strv heads, more, cancelled; /* as in struct mcp_exchange */
    size_t messages;
    bool calls, begins, failed;
    struct buf error; /* the answer to what is no message */
};

static void scan_done(struct mcp_scan *s) {
    strv_done(&s->heads);
    strv_done(&s->more);
    strv_done(&s->cancelled);
    buf_done(&s->error);
}

/* What rpc_begin_answer() writes before "result" or "error". */
static void add_head(struct mcp_scan *s, struct strv *to, const json_t *id, const char *before) {
    CLEANUP(freep) char *text = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

    s->failed |= !text || strv_addf(to, "%s%s,", before, text) < 0;
}

#define HEAD_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":"
#define HEAD_PROGRESS "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":"

static void scan_message(void *arg, const struct rpc_message *m) {
    struct mcp_scan *s = arg;
    const json_t *token = json_object_get(json_object_get(m->params, "_meta"), "progressToken"),
                 *gone = json_object_get(m->params, "requestId");

    s->messages++;
    if (m->id) {
        add_head(s, &s->heads, m->id, HEAD_ANSWER);
        s->calls |= str_eq(m->method, "tools/call");
        s->begins |= str_eq(m->method, "initialize");
        if (json_is_string(token) || json_is_integer(token))
            add_head(s, &s->more, token, HEAD_PROGRESS);
    } else if (str_eq(m->method, "notifications/cancelled") && gone) {
        add_head(s, &s->cancelled, gone, HEAD_ANSWER);
    }
}

static void scan_refuse(void *arg, const json_t *id, enum rpc_code code, const char *why) {
    struct mcp_scan *s = arg;

    if (!s->error.len)
        rpc_add_error(&s->error, id, code, why);
}

static void scan(struct mcp_scan *s, const char *body) {
    struct rpc_reader reader = RPC_READER_INIT;

    reader.message = scan_message;
    reader.refuse = scan_refuse;
    reader.arg = s;
    rpc_feed(&reader, body, strlen(body));
    rpc_feed(&reader, "\n", 1);
    rpc_reader_done(&reader);
}

/* -- a POST -------------------------------------------------------------------------------------------------------------- */

static bool has_twice(const struct mcp_http *h, const struct mcp_session *session, const struct strv *heads) {
    for (size_t i = 0; i < heads->len; i++) {
        for (size_t j = 0; j < i; j++)
            if (str_eq(heads->v[i], heads->v[j]))
                return true;
        if (mcp_exchange_waits(h, session, heads->v[i]))
            return true;
    }
    return false;
}

/* The exchange, or the answer: notifications have none. */
static void post_wait(struct mcp_http *h, uint64_t request, struct mcp_session *session, struct mcp_scan *s, bool stream,
                      bool list) {
    struct mcp_exchange *x;

    if (s->heads.len == 0) {
        mcp_http_answer(h, request, 202, "", "");
        return;
    }
    x = mcp_exchange_new(h, session, request);
    if (!x) {
        mcp_http_problem(h, request, 503, "too_many", "too many requests at once");
        return;
    }
    x->heads = s->heads;
    x->more = s->more;
    s->heads = s->more = (struct strv){0};
    x->begins = s->begins;
    x->list = list;
    if (stream && mcp_exchange_open(h, x) < 0) {
        mcp_http_problem(h, request, 503, "too_many", "too many streams at once");
        mcp_exchange_free(h, x);
    }
}

static void post_pass_on(struct mcp_http *h, uint64_t request, struct mcp_session *session, struct mcp_scan *s, const char *body,
                         bool stream) {
    if (has_twice(h, session, &s->heads)) {
        mcp_http_answer(h, request, 400, "",
                        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"the id is in use\"}}");
        return;
    }
    session->used_ms = clock_ms();
    mcp_session_send(session, body);
    for (size_t i = 0; i < s->cancelled.len; i++)
        mcp_exchange_cancel(h, session, s->cancelled.v[i], "the request was cancelled");
    post_wait(h, request, session, s, stream && s->calls, body[strspn(body, " \t")] == '[');
}

/* The session that the header names. NULL: it was answered. */
static struct mcp_session *session_of(struct mcp_http *h, uint64_t request, const struct api_fields *f) {
    const char *id = api_field_get(f, MCP_FIELD_SESSION, 0);
    struct mcp_session *s = id ? mcp_session_find(h, id) : NULL;

    if (!id)
        mcp_http_problem(h, request, 400, "bad_request", "Mcp-Session-Id is missing: begin with initialize");
    else if (!s)
        mcp_http_problem(h, request, 404, "not_found", "there is no such session: begin with initialize");
    return s;
}

static void http_post(struct mcp_http *h, uint64_t request, const struct api_fields *f) {
    CLEANUP(scan_done) struct mcp_scan s = {.error = BUF_INIT(RPC_LINE_MAX)};
    const char *body = api_field_get(f, MCP_FIELD_BODY, 0);
    struct mcp_session *session;
    struct err err = {0};

    scan(&s, body ? body : "");
    if (s.error.len) {
        mcp_http_answer(h, request, 400, "", buf_str(&s.error));
        return;
    }
    if (s.failed) {
        mcp_http_problem(h, request, 503, "too_many", "out of memory");
        return;
    }
    if (s.begins && (s.messages != 1 || api_field_get(f, MCP_FIELD_SESSION, 0))) {
        mcp_http_problem(h, request, 400, "bad_request",
                         "initialize begins a session: it comes alone, and without Mcp-Session-Id");
        return;
    }
    session = s.begins ? mcp_session_begin(h, &err) : session_of(h, request, f);
    if (session)
        post_pass_on(h, request, session, &s, body, api_field_bool(f, API_FIELD_STREAM, false));
    else if (s.begins)
        mcp_http_problem(h, request, 503, "too_many", err.msg);
}

/* -- the others ---------------------------------------------------------------------------------------------------------- */

static void http_get(struct mcp_http *h, uint64_t request, const struct api_fields *f) {
    struct mcp_session *s = session_of(h, request, f);
    struct mcp_exchange *x = s ? mcp_exchange_new(h, s, request) : NULL;

    if (s && (!x || mcp_exchange_open(h, x) < 0)) {
        mcp_http_problem(h, request, 503, "too_many", "too many streams at once");
        if (x)
            mcp_exchange_free(h, x);
    }
}

static void http_delete(struct mcp_http *h, uint64_t request, const struct api_fields *f) {
    struct mcp_session *s = session_of(h, request, f);

    if (s) {
        mcp_session_end(h, s);
        mcp_http_answer(h, request, 204, "", "");
    }
}

static bool is_allowed(const struct mcp_http *h, const struct api_fields *f) {
    unsigned char hash[SHA256_LEN];
    size_t len = 0;
    const char *bearer = api_field_bytes(f, API_FIELD_BEARER, 0, &len);

    return bearer && token_hash(bearer, len, hash) && token_same(hash, h->token);
}

void mcp_http_request(struct mcp_http *h, uint64_t request, unsigned op, const struct api_fields *f) {
    const char *version = api_field_get(f, MCP_FIELD_VERSION, 0);

    if (!is_allowed(h, f))
        mcp_http_problem(h, request, 401, "unauthorized", "the token is not valid");
    else if (version && !mcp_version_known(version))
        mcp_http_problem(h, request, 400, "bad_request", "MCP-Protocol-Version has a version that is not known here");
    else if (op == MCP_OP_POST)
        http_post(h, request, f);
    else if (op == MCP_OP_GET)
        http_get(h, request, f);
    else if (op == MCP_OP_DELETE)
        http_delete(h, request, f);
    else
        mcp_http_problem(h, request, 404, "not_found", "there is no such operation");
}
