/* SPDX-License-Identifier: Apache-2.0 */
/* One request: who asks, whether that may be, and the ways to answer. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "service/core/core_worker.h"

enum { LOG_MAX = 4096, DETAIL_MAX = 1000 };

static const unsigned problem_status[API_PROBLEMS] = {
    [API_PROBLEM_BAD_REQUEST] = 400,
    [API_PROBLEM_BAD_JSON] = 400,
    [API_PROBLEM_BAD_FIELD] = 400,
    [API_PROBLEM_UNAUTHORIZED] = 401,
    [API_PROBLEM_FORBIDDEN] = 403,
    [API_PROBLEM_NOT_FOUND] = 404,
    [API_PROBLEM_METHOD_NOT_ALLOWED] = 405,
    [API_PROBLEM_NOT_ACCEPTABLE] = 406,
    [API_PROBLEM_CONFLICT] = 409,
    [API_PROBLEM_IDEMPOTENCY_CONFLICT] = 409,
    [API_PROBLEM_NOT_RUNNING] = 409,
    [API_PROBLEM_ENDED] = 409,
    [API_PROBLEM_REVIEW_REQUIRED] = 409,
    [API_PROBLEM_TOO_LARGE] = 413,
    [API_PROBLEM_UNSUPPORTED_TYPE] = 415,
    [API_PROBLEM_RANGE] = 416,
    [API_PROBLEM_QUOTA] = 429,
    [API_PROBLEM_QUEUE_FULL] = 503,
    [API_PROBLEM_TOO_MANY] = 429,
    [API_PROBLEM_TIMEOUT] = 504,
    [API_PROBLEM_CANNOT_SANDBOX] = 422,
    [API_PROBLEM_DRAINING] = 503,
    [API_PROBLEM_NOT_IMPLEMENTED] = 501,
    [API_PROBLEM_INTERNAL] = 500,
};

unsigned call_problem_status(enum api_problem code) {
    return problem_status[code];
}

const uint64_t core_latency_ms[CORE_LATENCIES] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30000};

void core_count_time(uint64_t *buckets, uint64_t *sum_us, uint64_t us) {
    size_t i = 0;

    while (i < CORE_LATENCIES && us > core_latency_ms[i] * 1000)
        i++;
    buckets[i]++;
    *sum_us += us;
}

/* -- calls ------------------------------------------------------------------------------------------------------------------- */

struct api_call *core_find_call(struct core *c, uint64_t request) {
    struct api_call *call = c->calls;

    while (call && call->request != request)
        call = call->next;
    return call;
}

void call_free(struct api_call *call) {
    struct api_call **p = &call->core->calls;

    while (*p && *p != call)
        p = &(*p)->next;
    if (*p)
        *p = call->next;
    closep(&call->exec); /* the keeper ends a command whose client hangs up */
    worker_cancel(call->core, call->request);
    api_fields_done(&call->fields);
    free(call);
}

const char *call_text(const struct api_call *call, unsigned field) {
    return api_field_get(&call->fields, field, 0);
}

/* Logs and counts; the call is freed unless it has more to say. */
static void call_send(struct api_call *call, struct api_msg *m) {
    struct core *c = call->core;
    uint64_t us = clock_us() - call->begun_us;

    m->kind = API_ANSWER;
    m->request = call->request;
    c->counts.requests[MIN_OF(m->value / 100, 5u)]++;
    core_count_time(c->counts.latency, &c->counts.latency_us, us);
    core_send(c, m);
    call->answered = true;
    if (call->wait != WAIT_EVENTS && call->wait != WAIT_WORKER && call->wait != WAIT_EXEC)
        call_free(call);
}

void call_json(struct api_call *call, unsigned status, struct buf *body) {
    struct api_msg m = {.value = status, .len = body->len};

    if (!buf_ok(body)) {
        buf_done(body);
        call_fail(call, API_PROBLEM_TOO_LARGE, "the answer is too large");
        return;
    }
    call->wait = WAIT_NOTHING;
    m.body = buf_take(body);
    call_send(call, &m);
}

void call_nothing(struct api_call *call) {
    struct api_msg m = {.value = 204};

    call->wait = WAIT_NOTHING;
    call_send(call, &m);
}

void call_fd(struct api_call *call, unsigned flags, const void *body, size_t len, int fd) {
    /* The 101 of a WebSocket is the front's to say. */
    unsigned status = call->route->status < 200 ? 200 : call->route->status;
    struct api_msg m = {.value = status, .flags = (uint16_t)flags, .fds = {fd, -1, -1, -1}, .n_fds = 1, .len = len};

    m.body = malloc(len + 1);
    if (m.body)
        memcpy(m.body, body, len);
    call_send(call, &m);
}

static void send_problem(struct api_call *call, enum api_problem code, const char *detail, const char *field, unsigned retry) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8 * 1024);
    struct api_msg m = {.value = problem_status[code]};

    buf_add(&b, api_problem_names[code], strlen(api_problem_names[code]) + 1);
    buf_adds(&b, detail);
    if (field || retry) {
        buf_addc(&b, 0);
        buf_adds(&b, field ? field : "");
    }
    if (retry) {
        buf_addc(&b, 0);
        buf_addf(&b, "%u", retry);
    }
    m.len = b.len;
    m.body = buf_take(&b);
    call->wait = WAIT_NOTHING;
    call_send(call, &m);
}

void call_fail(struct api_call *call, enum api_problem code, const char *fmt, ...) {
    char detail[DETAIL_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    send_problem(call, code, detail, NULL, 0);
}

void call_end(struct api_call *call, const char *detail) {
    const enum api_problem code = API_PROBLEM_UNAUTHORIZED;
    CLEANUP(buf_done) struct buf b = BUF_INIT(DETAIL_MAX);
    struct api_msg m = {
        .kind = call->wait == WAIT_EVENTS ? API_LAST : API_OUTCOME, .request = call->request, .value = EXIT_SANDBOX};

    if (!call->answered) {
        call_fail(call, code, "%s", detail);
        return;
    }
    if (call->wait == WAIT_WORKER)
        buf_addf(&b, "%u%c%s%c%s", problem_status[code], 0, api_problem_names[code], 0, detail);
    else
        buf_add(&b, (const uint64_t[2]){0}, 2 * sizeof(uint64_t)); /* no byte more; no signal, no time */
    m.len = b.len;
    m.body = buf_take(&b);
    core_send(call->core, &m);
    call_free(call);
}

void call_fail_field(struct api_call *call, unsigned field, const char *detail) {
    send_problem(call, API_PROBLEM_BAD_FIELD, detail, field < API_FIELDS ? api_field_names[field] : NULL, 0);
}

void call_retry(struct api_call *call, enum api_problem code, unsigned seconds, const char *detail) {
    if (code == API_PROBLEM_QUOTA)
        call->core->counts.quota++;
    send_problem(call, code, detail, NULL, MAX_OF(seconds, 1u));
}

void call_broken(struct api_call *call, const struct err *err) {
    const char *id = call_text(call, API_FIELD_REQUEST_ID);

    core_log(call->core, "error", "request", id, "%s", err->msg);
    call_fail(call, API_PROBLEM_INTERNAL, "something is wrong with the service; its log has the reason by the request's id");
}

/* -- who asks ----------------------------------------------------------------------------------------------------------------- */

static int find_peer(struct core *c, struct api_call *call, struct err *err) {
    for (size_t i = 0; i < c->n_peers; i++)
        if (c->peers[i].handle == call->peer) {
            call->admin = c->peers[i].uid == 0 || c->peers[i].uid == c->uid;
            call->tenant = core_tenant_of_uid(c, c->peers[i].uid, err);
            return call->tenant ? 1 : err->code;
        }
    return 0;
}

/* 1: known, 0: not, -errno. A token counts before the socket: what it may not do, its peer does not do for it. */
static int find_tenant(struct core *c, struct api_call *call, struct err *err) {
    struct token_row token = {0};
    size_t len = 0;
    const char *bearer = api_field_bytes(&call->fields, API_FIELD_BEARER, 0, &len);
    int r;

    if (!bearer && call_text(call, API_FIELD_SESSION))
        return session_find(c, call);
    if (!bearer)
        return call->peer ? find_peer(c, call, err) : 0;
    r = ledger_token_find(&c->db, bearer, len, clock_mark(), &token, err);
    if (r <= 0)
        return r;
    call->admin = token.admin;
    call->until_ns = token.expires_ns;
    memcpy(call->token, token.id, sizeof call->token);
    call->tenant = core_tenant(c, token.tenant);
    return call->tenant ? 1 : 0;
}

static bool allowed(struct core *c, struct api_call *call) {
    struct err err = {0};
    int r;

    if (call->route->scope == API_SCOPE_ANY)
        return true;
    r = find_tenant(c, call, &err);
    if (r < 0)
        call_broken(call, &err);
    else if (r == 0) {
        c->counts.unauthorized++;
        call_fail(call, API_PROBLEM_UNAUTHORIZED, "a valid token is needed");
    } else if (call->route->scope == API_SCOPE_ADMIN && !call->admin) {
        call_fail(call, API_PROBLEM_FORBIDDEN, "only for administrators");
        return false;
    } else if (session_forbids(call)) {
        call_fail(call, API_PROBLEM_FORBIDDEN, "the dashboard may not do that: use a token, or the command line");
        return false;
    }
    return r > 0;
}

static struct api_call *new_call(struct core *c, const struct api_msg *m, const struct api_route *route) {
    struct api_call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    *call = (struct api_call){.core = c,
                              .route = route,
                              .fields = API_FIELDS_INIT,
                              .request = m->request,
                              .peer = m->peer,
                              .exec = -1,
                              .begun_us = clock_us(),
                              .next = c->calls};
    c->calls = call;
    return call;
}

void core_request(struct core *c, struct api_msg *m) {
    const struct api_route *route = api_route_of(m->value);
    struct api_fault fault = {0};
    struct api_call *call;

    if (!route || m->request == 0 || core_find_call(c, m->request)) {
        core_log(c, "error", "front", "", "a request that cannot be: operation %u", m->value);
        core_lost_front(c);
        return;
    }
    call = new_call(c, m, route);
    if (!call)
        return;
    if (api_fields_read(&call->fields, m->body, m->len) < 0)
        call_fail(call, API_PROBLEM_BAD_REQUEST, "the fields cannot be read");
    else if (api_fields_check(&call->fields, route, &fault) < 0)
        call_fail_field(call, fault.field, fault.problem ? fault.problem : "is wrong");
    else if (allowed(c, call)) {
        if (core_ops[route->op])
            core_ops[route->op](c, call);
        else
            call_fail(call, API_PROBLEM_NOT_IMPLEMENTED, "not available yet");
    }
}
