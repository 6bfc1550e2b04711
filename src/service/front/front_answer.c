/* SPDX-License-Identifier: Apache-2.0 */
/* Responses: problems, JSON, parts of files. Every one has the headers that keep browsers from doing anything with it. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/str.h"
#include "service/front/front.h"
#include "service/front/front_range.h"
#include "service/front/websocket.h"

static const struct {
    const char *name, *value;
} guards[] = {
    {"Cache-Control", "no-store"},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
};

static const char *other_value(const char *const *other, const char *name) {
    for (size_t i = 0; other && other[i]; i += 2)
        if (str_eq(other[i], name))
            return other[i + 1];
    return NULL;
}

static void add_guards(struct MHD_Response *r, const char *const *other) {
    for (size_t i = 0; i < ARRAY_LEN(guards); i++)
        if (!other_value(other, guards[i].name))
            MHD_add_response_header(r, guards[i].name, guards[i].value);
    for (size_t i = 0; other && other[i]; i += 2)
        MHD_add_response_header(r, other[i], other[i + 1]);
}

void front_answer_with(struct front_exchange *x, unsigned status, struct MHD_Response *r, const char *type,
                       const char *const *other) {
    if (!r) {
        x->front->failed = -ENOMEM;
        return;
    }
    add_guards(r, other);
    MHD_add_response_header(r, "Request-Id", x->request_id);
    if (x->front->conf.version[0]) {
        char server[FRONT_VERSION_MAX + 8];

        snprintf(server, sizeof server, "bawn/%s", x->front->conf.version);
        MHD_add_response_header(r, MHD_HTTP_HEADER_SERVER, server);
    }
    if (type)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (x->front->draining)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
    if (x->response)
        MHD_destroy_response(x->response);
    x->response = r;
    x->status = status;
}

static void set_response(struct front_exchange *x, unsigned status, struct MHD_Response *r, const char *type) {
    front_answer_with(x, status, r, type, NULL);
}

void front_answer_ready(struct front_exchange *x) {
    if (x->upload >= 0) {
        x->discard = true; /* it came before the end of the body, the rest of which is thrown away */
        front_upload_end(x);
    }
    front_exchange_resume(x);
}

void front_problem_text(const struct front_fault *fault, const char *request_id, struct buf *b) {
    buf_adds(b, "{\"type\":\"about:blank\",\"title\":");
    buf_add_json(b, MHD_get_reason_phrase_for(fault->status));
    buf_addf(b, ",\"status\":%u,\"code\":\"%s\"", fault->status, api_problem_names[fault->code]);
    if (fault->detail[0]) {
        buf_adds(b, ",\"detail\":");
        buf_add_json(b, fault->detail);
    }
    if (fault->field[0]) {
        buf_adds(b, ",\"field\":");
        buf_add_json(b, fault->field);
    }
    buf_addf(b, ",\"instance\":\"%s\"}\n", request_id);
}

void front_answer_problem(struct front_exchange *x, const struct front_fault *fault, const char *allow) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8192);
    bool empty = fault->status < 400; /* OPTIONS */
    char retry[16];

    if (!empty)
        front_problem_text(fault, x->request_id, &b);
    set_response(x, fault->status, MHD_create_response_from_buffer(b.len, b.data, MHD_RESPMEM_MUST_COPY),
                 empty ? NULL : "application/problem+json");
    if (!x->response)
        return;
    if (allow && allow[0] && (empty || fault->status == 405))
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_ALLOW, allow);
    if (fault->status == 401)
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    snprintf(retry, sizeof retry, "%u", fault->retry);
    if (fault->retry)
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_RETRY_AFTER, retry);
}

void front_answer_refusal(struct front_exchange *x, unsigned status, const struct api_msg *m, size_t i) {
    struct front_fault fault = {0};
    uint64_t retry = 0;
    int code = str_index(api_msg_text(m, i), api_problem_names, API_PROBLEMS);

    fault_set(&fault, status < 400 || status > 599 ? 500 : status, code < 0 ? API_PROBLEM_INTERNAL : (enum api_problem)code, "%s",
              api_msg_text(m, i + 1));
    snprintf(fault.field, sizeof fault.field, "%.*s", (int)sizeof fault.field - 1, api_msg_text(m, i + 2));
    if (parse_u64(api_msg_text(m, i + 3), 1, 1000000, &retry, NULL) == 0)
        fault.retry = (unsigned)retry;
    front_answer_problem(x, &fault, NULL);
    front_answer_ready(x);
}

void front_answer_json(struct front_exchange *x, unsigned status, char *text, size_t len) {
    bool empty = status == 204 || len == 0;

    set_response(x, status, MHD_create_response_from_buffer(empty ? 0 : len, text, MHD_RESPMEM_MUST_FREE),
                 empty                                        ? NULL
                 : x->form == FORM_BYTES && x->route->content ? x->route->content
                                                              : "application/json");
    front_answer_ready(x);
}

static void refuse_range(struct front_exchange *x, uint64_t size) {
    struct front_fault fault;
    char text[48];

    fault_set(&fault, 416, API_PROBLEM_RANGE, "there are %" PRIu64 " bytes", size);
    front_answer_problem(x, &fault, NULL);
    snprintf(text, sizeof text, "bytes */%" PRIu64, size);
    if (x->response)
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_CONTENT_RANGE, text);
}

void front_answer_part(struct front_exchange *x, unsigned status, struct api_msg *m) {
    const char *range = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_RANGE);
    bool whole = !range || status != 200 || MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_IF_RANGE);
    uint64_t at = 0, size = 0, first = 0, len;
    char text[80];
    int r;

    if (!api_msg_u64(m, 0, &at) || !api_msg_u64(m, 1, &size) || at > INT64_MAX || size > INT64_MAX - at)
        size = at = 0;
    len = size;
    r = whole ? 0 : range_parse(range, size, &first, &len);
    if (r < 0) {
        refuse_range(x, size);
        front_answer_ready(x);
        return;
    }
    if (r == 0)
        first = 0, len = size;
    set_response(x, r > 0 ? 206 : status, MHD_create_response_from_fd_at_offset64(len, TAKE_FD(m->fds[0]), at + first),
                 x->route->content ? x->route->content : "application/octet-stream");
    if (x->response) {
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
        snprintf(text, sizeof text, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, first + len - 1, size);
        if (r > 0)
            MHD_add_response_header(x->response, MHD_HTTP_HEADER_CONTENT_RANGE, text);
    }
    front_answer_ready(x);
}

void front_answer_stream(struct front_exchange *x, MHD_ContentReaderCallback read) {
    static const char *const types[] = {
        [FORM_SSE] = "text/event-stream", [FORM_NDJSON] = "application/x-ndjson", [FORM_JSON] = "application/json"};
    const char *type = x->form == FORM_BYTES ? x->route->content : types[x->form];

    set_response(x, 200, MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FRONT_CHUNK, read, x, NULL), type);
    front_answer_ready(x);
}

void front_answer_terminal(struct front_exchange *x) {
    const char *key = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, "Sec-WebSocket-Key");
    char accept[WEBSOCKET_ACCEPT_SIZE];

    if (!key || !websocket_accept(key, accept))
        return; /* the head was examined */
    set_response(x, 101, MHD_create_response_for_upgrade(front_terminal_upgrade, x->front), NULL);
    if (x->response) {
        MHD_add_response_header(x->response, MHD_HTTP_HEADER_UPGRADE, "websocket");
        MHD_add_response_header(x->response, "Sec-WebSocket-Accept", accept);
        if (front_session_offered(x))
            MHD_add_response_header(x->response, "Sec-WebSocket-Protocol", FRONT_PROTOCOL);
    }
    front_answer_ready(x);
}
