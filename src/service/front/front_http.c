/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libmicrohttpd calls. Its calls for one request: first without data, when the headers are there; then with data, as often as it comes;
 * then without data once more. An answer can be queued in the first and in the last call, not between them. If the connection is suspended in
 * the first call, the first call is repeated when it goes on.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "os/clock.h"
#include "service/front/front.h"
#include "service/front/front_json.h"

void *front_http_uri(void *cls, const char *uri, struct MHD_Connection *mhd) {
    struct front_conn *c = front_conn_of(mhd);

    (void)cls;
    if (c) {
        free(c->uri);
        c->uri = strdup(uri);
    }
    return NULL;
}

static enum MHD_Result queue_response(struct front_exchange *x) {
    x->queued = true;
    x->conn->deadline_ms = 0;
    MHD_set_connection_option(x->conn->mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)x->front->conf.stall_seconds);
    return MHD_queue_response(x->conn->mhd, x->status, x->response);
}

/* A small body is read to its end first: closing a connection with unread bytes makes the kernel throw our answer away. */
static bool is_small_body(struct front_exchange *x) {
    const char *length = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *coding = MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);

    /* A coding that is not known has no end that is. */
    if (MHD_lookup_connection_value(x->conn->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) ||
        (coding && strcasecmp(coding, "chunked") != 0))
        return false;
    return !length || strtoull(length, NULL, 10) <= FRONT_DISCARD_MAX;
}

static enum MHD_Result queue_or_discard(struct front_exchange *x, bool first) {
    if (!first || !is_small_body(x))
        return queue_response(x);
    x->discard = true;
    x->body_max = FRONT_DISCARD_MAX;
    return MHD_YES;
}

static enum MHD_Result refuse_request(struct front_exchange *x, const struct front_fault *fault, const char *allow, bool first) {
    front_answer_problem(x, fault, allow);
    return x->response ? queue_or_discard(x, first) : MHD_NO;
}

static enum MHD_Result ask_core(struct front_exchange *x, bool first) {
    struct front_fault fault = {0};

    x->conn->deadline_ms = 0;
    return front_exchange_ask(x, &fault) < 0 ? refuse_request(x, &fault, NULL, first) : MHD_YES;
}

static enum MHD_Result begin_request(struct front_conn *c, const char *method, void **context) {
    CLEANUP(buf_done) struct buf allow = BUF_INIT(256);
    struct front_exchange *x = front_exchange_new(c);
    struct front_fault fault = {0};
    uint64_t body_ms = c->front->conf.body_seconds * 1000;

    if (!x)
        return MHD_NO;
    *context = x;
    MHD_set_connection_option(c->mhd, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)c->front->conf.stall_seconds);
    c->deadline_ms = clock_ms() + body_ms;
    if (front_head_examine(x, method, &allow, &fault) < 0) {
        if (!fault.status)
            fault_set(&fault, 500, API_PROBLEM_INTERNAL, "out of memory");
        return refuse_request(x, &fault, buf_str(&allow), true);
    }
    if (x->page) {
        front_page_answer(x);
        return x->response ? queue_or_discard(x, true) : MHD_NO;
    }
    return x->route->body == API_BODY_BYTES ? ask_core(x, true) : MHD_YES;
}

/* No answer can be queued now: it is written past libmicrohttpd, or waits for the end of the body. */
static void cut_request(struct front_exchange *x, unsigned status, enum api_problem code, const char *detail) {
    struct front_fault fault;

    fault_set(&fault, status, code, "%s", detail);
    x->cut = true;
    front_conn_cut(x->conn, &fault, x->request_id);
}

static void collect_body(struct front_exchange *x, const char *data, size_t len) {
    struct front_server *f = x->front;

    if (f->json_bytes + len > FRONT_JSON_TOTAL) {
        cut_request(x, 503, API_PROBLEM_TOO_MANY, "too many large requests at once");
        return;
    }
    buf_add(&x->body, data, len);
    f->json_bytes += buf_ok(&x->body) ? len : 0;
    if (!buf_ok(&x->body))
        cut_request(x, 413, API_PROBLEM_TOO_LARGE, "the body is too large");
}

static enum MHD_Result take_data(struct front_exchange *x, const char *data, size_t *size) {
    size_t taken = *size;

    if (x->received + *size > x->body_max)
        cut_request(x, 413, API_PROBLEM_TOO_LARGE, "the body is too large");
    else if (x->discard)
        ;
    else if (x->route->body == API_BODY_JSON)
        collect_body(x, data, *size);
    else
        taken = front_upload_write(x, data, *size);
    if (x->cut)
        return MHD_NO;
    x->received += taken;
    *size -= taken;
    return MHD_YES;
}

static enum MHD_Result end_json(struct front_exchange *x) {
    struct front_fault fault = {0};
    int r = !x->body.len         ? fault_set(&fault, 400, API_PROBLEM_BAD_JSON, "the body is empty: a JSON object is needed")
            : x->front->conf.mcp ? front_mcp_body(x, &fault)
                                 : front_json_fields(x->body.data, x->body.len, x->route, &x->fields, &fault);

    x->front->json_bytes -= x->body.len;
    buf_done(&x->body);
    x->body = (struct buf)BUF_INIT(0);
    if (r < 0 && !fault.status)
        fault_set(&fault, 413, API_PROBLEM_TOO_LARGE, "the request has too many fields");
    return r < 0 ? refuse_request(x, &fault, NULL, false) : ask_core(x, false);
}

static enum MHD_Result end_body(struct front_exchange *x) {
    if (x->asked && x->route->body == API_BODY_BYTES && !x->body_begun) {
        x->body_begun = true; /* the first call, again */
        return x->response ? queue_or_discard(x, true) : MHD_YES;
    }
    if (x->response)
        return queue_response(x);
    if (x->asked && x->upload >= 0)
        front_upload_end(x);
    if (x->asked) {
        front_exchange_suspend(x);
        return MHD_YES;
    }
    return x->route->body == API_BODY_JSON ? end_json(x) : ask_core(x, false);
}

enum MHD_Result front_http_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                   const char *version, const char *data, size_t *size, void **context) {
    struct front_conn *c = front_conn_of(mhd);
    struct front_exchange *x = *context;

    (void)cls;
    (void)url;
    (void)version;
    if (!c)
        return MHD_NO;
    if (!x)
        return begin_request(c, method, context);
    if (x->gone || x->cut)
        return MHD_NO;
    return *size ? take_data(x, data, size) : end_body(x);
}

void front_http_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode why) {
    struct front_exchange *x = *context;
    struct front_conn *c;

    (void)cls;
    (void)mhd;
    (void)why;
    if (!x)
        return;
    *context = NULL;
    c = x->conn;
    c->exchange = NULL;
    c->deadline_ms = clock_ms() + (c->front->draining ? 0 : c->front->conf.idle_seconds * 1000);
    front_watch_stop(&c->front->loop, &c->gone);
    front_exchange_free(x);
}
