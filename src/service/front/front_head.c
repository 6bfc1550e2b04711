/* SPDX-License-Identifier: Apache-2.0 */
/* What the headers of a request say: its route, its form, its limits, and the fields that are not in its body. */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "base/str.h"
#include "service/front/front.h"
#include "service/front/front_route.h"
#include "service/front/websocket.h"

/* Headers of which a second one would be another request to a proxy in front of us. */
static const char *const once[] = {MHD_HTTP_HEADER_HOST,
                                   MHD_HTTP_HEADER_AUTHORIZATION,
                                   MHD_HTTP_HEADER_ORIGIN,
                                   "Bawn-Csrf",
                                   MHD_HTTP_HEADER_CONTENT_LENGTH,
                                   MHD_HTTP_HEADER_TRANSFER_ENCODING,
                                   MHD_HTTP_HEADER_CONTENT_TYPE,
                                   "Idempotency-Key",
                                   "Last-Event-ID",
                                   "Mcp-Session-Id",
                                   MHD_HTTP_HEADER_RANGE,
                                   MHD_HTTP_HEADER_CONTENT_ENCODING};

struct count {
    unsigned n[ARRAY_LEN(once)];
};

static const char *header(struct front_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, name);
}

static const char *header_of(void *arg, const char *name) {
    return header(arg, name);
}

static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value) {
    struct count *c = arg;

    (void)kind;
    (void)value;
    for (size_t i = 0; i < ARRAY_LEN(once); i++)
        c->n[i] += strcasecmp(key, once[i]) == 0;
    return MHD_YES;
}

static int check_framing(struct front_exchange *x, struct front_fault *fault) {
    const char *coding = header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING), *packed = header(x, MHD_HTTP_HEADER_CONTENT_ENCODING);
    struct count c = {{0}};

    MHD_get_connection_values(x->conn->mhd, MHD_HEADER_KIND, count_header, &c);
    for (size_t i = 0; i < ARRAY_LEN(once); i++)
        if (c.n[i] > 1)
            return fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "the header %s is there twice", once[i]);
    if (coding && header(x, MHD_HTTP_HEADER_CONTENT_LENGTH))
        return fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "a length and a transfer coding exclude each other");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "chunked is the only transfer coding here");
    if (packed && strcasecmp(packed, "identity") != 0)
        return fault_set(fault, 415, API_PROBLEM_UNSUPPORTED_TYPE, "bodies are not compressed here");
    return 0;
}

/* A page of another site cannot make its own name one of ours: its name would be here. */
static int check_host(struct front_exchange *x, struct front_fault *fault) {
    const struct front_conf *conf = &x->front->conf;
    const char *host = header(x, MHD_HTTP_HEADER_HOST), *end;

    if (x->conn->peer)
        return 0;
    if (!host)
        return fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "the header Host is missing");
    end = host[0] == '[' ? strchr(host, ']') : NULL;
    end = end ? end + 1 : host + strcspn(host, ":");
    for (size_t i = 0; i < conf->n_hosts; i++)
        if (strlen(conf->hosts[i]) == (size_t)(end - host) && strncasecmp(conf->hosts[i], host, (size_t)(end - host)) == 0 &&
            (*end == 0 || (*end == ':' && strspn(end + 1, "0123456789") == strlen(end + 1))))
            return 0;
    return fault_set(fault, 403, API_PROBLEM_FORBIDDEN, "this service does not have that name: configure it as a host");
}

static int find_method(const char *method) {
    return str_index(str_eq(method, "HEAD") ? "GET" : method, api_method_names, API_METHODS);
}

static int find_route(struct front_exchange *x, const char *method, const struct uri *u, struct buf *allow,
                      struct front_fault *fault) {
    struct route_match m = x->front->conf.mcp ? front_mcp_route(u, find_method(method)) : route_find(u, find_method(method));

    x->head = str_eq(method, "HEAD");
    if (!m.methods)
        return fault_set(fault, 404, API_PROBLEM_NOT_FOUND, "there is no such path");
    route_allow(m.methods, allow);
    if (str_eq(method, "OPTIONS"))
        return fault_set(fault, 204, API_PROBLEM_BAD_REQUEST, "%s", "");
    if (!m.route || (x->head && m.route->answer != API_ANSWER_JSON && m.route->answer != API_ANSWER_BYTES))
        return fault_set(fault, 405, API_PROBLEM_METHOD_NOT_ALLOWED, "this path has %s", buf_str(allow));
    x->route = m.route;
    return 0;
}

static bool accepts(const char *accept, const char *type) {
    size_t len = strlen(type);

    for (const char *at = accept; at && *at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
        at += strspn(at, " \t");
        if (strncasecmp(at, type, len) == 0 && strchr(" \t;,", at[len]))
            return true;
    }
    return false;
}

static int choose_form(struct front_exchange *x, struct front_fault *fault) {
    const char *accept = header(x, MHD_HTTP_HEADER_ACCEPT);
    bool any = !accept || accepts(accept, "*/*"), ndjson = accept && accepts(accept, "application/x-ndjson"),
         sse = accept && accepts(accept, "text/event-stream");

    switch (x->route->answer) {
    case API_ANSWER_WEBSOCKET:
    case API_ANSWER_BYTES:
        x->form = FORM_BYTES;
        return 0;
    case API_ANSWER_STREAM:
        x->form = ndjson ? FORM_NDJSON : FORM_SSE;
        if (ndjson || sse || any || accepts(accept, "text/*"))
            return 0;
        return fault_set(fault, 406, API_PROBLEM_NOT_ACCEPTABLE, "the answer is text/event-stream or application/x-ndjson");
    case API_ANSWER_EITHER:
        x->form = ndjson ? FORM_NDJSON : sse ? FORM_SSE : FORM_JSON;
        if (ndjson || sse)
            return 0;
        break;
    case API_ANSWER_JSON:
        x->form = FORM_JSON;
        break;
    }
    if (any || accepts(accept, "application/json") || accepts(accept, "application/*") || !x->route->content)
        return 0;
    return fault_set(fault, 406, API_PROBLEM_NOT_ACCEPTABLE, "the answer is application/json");
}

static int check_body(struct front_exchange *x, struct front_fault *fault) {
    const char *length = header(x, MHD_HTTP_HEADER_CONTENT_LENGTH), *type = header(x, MHD_HTTP_HEADER_CONTENT_TYPE);
    const struct front_conf *conf = &x->front->conf;
    uint64_t n = 0;
    bool has;

    if (length && parse_u64(length, 0, INT64_MAX, &n, NULL) < 0)
        return fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "the length of the body is not valid");
    has = n > 0 || header(x, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    if (x->route->body == API_BODY_NONE)
        return has ? fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "this operation has no body") : 0;
    x->body_max = x->route->body == API_BODY_JSON ? conf->json_max : conf->upload_max;
    if (x->route->body_max)
        x->body_max = MIN_OF(x->body_max, x->route->body_max);
    if (n > x->body_max)
        return fault_set(fault, 413, API_PROBLEM_TOO_LARGE, "a body of more than %llu bytes", (unsigned long long)x->body_max);
    if (x->route->body == API_BODY_JSON && (!type || !accepts(type, "application/json")))
        return fault_set(fault, 415, API_PROBLEM_UNSUPPORTED_TYPE, "the body must be JSON, with Content-Type: application/json");
    return 0;
}

/* Over TCP only a token says who it is; bawnd decides what it is worth. */
static int take_bearer(struct front_exchange *x, const char *method, struct front_fault *fault) {
    const char *text = header(x, MHD_HTTP_HEADER_AUTHORIZATION);
    int r = text ? 0 : front_session_take(x, method, fault);

    if (r != 0)
        return r < 0 ? r : 0;
    if (!text && x->route->scope != API_SCOPE_ANY && !x->conn->peer)
        return fault_set(fault, 401, API_PROBLEM_UNAUTHORIZED, "Authorization: Bearer TOKEN is missing");
    if (!text)
        return 0;
    if (strncasecmp(text, "Bearer ", 7) != 0)
        return fault_set(fault, 401, API_PROBLEM_UNAUTHORIZED, "Authorization is not Bearer TOKEN");
    text += 7 + strspn(text + 7, " ");
    if (strlen(text) > API_BEARER_MAX || !api_check_is(API_CHECK_PRINTABLE, text, strlen(text)))
        return fault_set(fault, 401, API_PROBLEM_UNAUTHORIZED, "the token is not valid");
    return api_fields_adds(&x->fields, API_FIELD_BEARER, text);
}

static int check_websocket(struct front_exchange *x, struct front_fault *fault) {
    const char *upgrade = header(x, MHD_HTTP_HEADER_UPGRADE), *connection = header(x, MHD_HTTP_HEADER_CONNECTION);
    const char *version = header(x, "Sec-WebSocket-Version"), *key = header(x, "Sec-WebSocket-Key");
    const char *origin = header(x, MHD_HTTP_HEADER_ORIGIN), *host = header(x, MHD_HTTP_HEADER_HOST);
    char accept[WEBSOCKET_ACCEPT_SIZE];

    if (x->route->answer != API_ANSWER_WEBSOCKET)
        return 0;
    if (!upgrade || !accepts(upgrade, "websocket") || !connection || !accepts(connection, "upgrade") || !version ||
        !str_eq(version, "13") || !key || !websocket_accept(key, accept))
        return fault_set(fault, 400, API_PROBLEM_BAD_REQUEST, "this is a WebSocket: Upgrade, version 13 and a key are needed");
    /* Browsers let any page open a WebSocket anywhere, and say from where. */
    origin = origin ? strstr(origin, "://") : NULL;
    if (header(x, MHD_HTTP_HEADER_ORIGIN) && (!origin || !host || strcasecmp(origin + 3, host) != 0))
        return fault_set(fault, 403, API_PROBLEM_FORBIDDEN, "a WebSocket from another site");
    return 0;
}

int front_head_examine(struct front_exchange *x, const char *method, struct buf *allow, struct front_fault *fault) {
    CLEANUP(uri_done) struct uri u = {0};
    int r = check_framing(x, fault);

    r = r < 0 ? r : check_host(x, fault);
    if (r < 0)
        return r;
    r = x->conn->uri ? uri_parse(x->conn->uri, &u) : -ENOMEM;
    if (r < 0)
        return r == -E2BIG ? fault_set(fault, 404, API_PROBLEM_NOT_FOUND, "there is no such path")
                           : fault_set(fault, 400, API_PROBLEM_BAD_REQUEST,
                                       "the target of the request is not a path, or wrongly escaped");
    r = x->front->conf.mcp ? front_mcp_origin(x, fault) : front_page_find(x, method, &u, fault);
    if (r < 0 || x->page)
        return r;
    r = find_route(x, method, &u, allow, fault);
    r = r < 0 ? r : take_bearer(x, method, fault);
    r = r < 0 ? r : choose_form(x, fault);
    r = r < 0 ? r : check_body(x, fault);
    r = r < 0 ? r : check_websocket(x, fault);
    if (r < 0)
        return r;
    r = route_fields(x->route, &u, header_of, x, &x->fields, fault);
    if (r == -E2BIG || r == -ENOMEM)
        return fault_set(fault, 413, API_PROBLEM_TOO_LARGE, "the request has too many fields");
    return r;
}
