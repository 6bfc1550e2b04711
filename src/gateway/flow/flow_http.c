/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of an inspected flow: judged, asked about, logged. */
#include "gateway/flow/flow_http.h"
#include "gateway/flow/pacer.h"
#include "gateway/flow/why.h"
#include "gateway/http/http_head.h"
#include "gateway/http/refuse.h"

static void request_fill(struct flow *f, const char *method, const char *path, const struct policy_verdict *v,
                         struct gate_msg *m) {
    char address[ADDR_TEXT_SIZE];

    gate_event_fill(m, GATE_EVENT_REQUEST, f->id, f->host.text, f->port, v);
    snprintf(m->address, sizeof m->address, "%s", flow_address_text(f, address));
    snprintf(m->method, sizeof m->method, "%s", method ? method : "");
    snprintf(m->path, sizeof m->path, "%.*s", (int)strcspn(path ? path : "", "?"), path ? path : "");
}

/* secret: whose placeholder it was, or "". */
static void report_denied(struct flow *f, const char *method, const char *path, const struct policy_verdict *v, int status,
                          const char *secret) {
    struct gate_msg m;

    request_fill(f, method, path, v, &m);
    snprintf(m.secret, sizeof m.secret, "%s", secret);
    m.action = RULE_DENY;
    m.status = (uint32_t)status;
    gate_send(f->gate, &m);
    why_note(f->gate->why, gate_now_s(f->gate), f->host.text, f->port, v);
}

struct flow_request *flow_request_find(struct flow *f, uint32_t id) {
    struct flow_request *q = f->requests;

    while (q && q->id != id)
        q = q->next;
    return q;
}

static struct flow_request *request_take(struct flow *f, uint32_t id) {
    for (struct flow_request **at = &f->requests; *at; at = &(*at)->next)
        if ((*at)->id == id) {
            struct flow_request *q = *at;

            *at = q->next;
            return q;
        }
    return NULL;
}

static void request_free(struct flow_request *q) {
    if (!q)
        return;
    if (q->ask)
        gate_ask_cancel(q->ask);
    if (q->denied)
        pacer_over(q->flow->gate->pacer);
    deadline_done(&q->late);
    flow_secret_done(q->secret);
    free(q->denied);
    free(q->path);
    free(q);
}

static struct flow_request *request_add(struct flow *f, const struct httpx_request *req, const struct policy_verdict *v) {
    struct flow_request *q = calloc(1, sizeof *q);

    if (!q || !(q->path = strdup(req->path.text))) {
        free(q);
        return NULL;
    }
    q->flow = f;
    q->id = req->id;
    q->max_body = v->max_body;
    request_fill(f, req->upgrade ? POLICY_WEBSOCKET : req->method, req->path.text, v, &q->msg); /* as the broker judges it, too */
    q->next = f->requests;
    f->requests = q;
    return q;
}

void flow_request_refuse(struct flow_request *q, const struct policy_verdict *v) {
    struct flow *f = q->flow;
    uint32_t id = q->id;

    report_denied(f, q->msg.method, q->path, v, refuse_status(v), q->msg.secret);
    request_free(request_take(f, id));
    inspect_decide(f->inspect, id, v);
}

void flow_request_stopped(struct flow_request *q, const struct policy_verdict *v) {
    q->logged = true;
    report_denied(q->flow, q->msg.method, q->path, v, refuse_status(v), q->msg.secret);
}

void flow_request_go(struct flow_request *q) {
    const struct policy_verdict v = {.action = RULE_ALLOW, .code = POLICY_ALLOWED, .max_body = q->max_body, .layer = "session"};

    if (q->ask || (q->secret && (flow_secret_is_collecting(q) || !flow_secret_go(q))))
        return;
    inspect_decide(q->flow->inspect, q->id, &v);
}

static void request_answered(void *arg, enum gate_answer answer) {
    struct flow_request *q = arg;
    struct policy_verdict v;

    q->ask = NULL;
    if (answer == GATE_DENY) {
        policy_refuse(POLICY_DENIED_UNANSWERED, q->flow->host.text, "the user was asked, and said no or did not answer in time",
                      &v);
        flow_request_refuse(q, &v);
        return;
    }
    q->msg.action = RULE_ALLOW;
    flow_request_go(q);
}

static bool request_ask(struct flow_request *q, struct policy_verdict *ret) {
    q->ask = gate_ask(q->flow->gate, &q->msg, request_answered, q);
    if (!q->ask)
        policy_refuse(POLICY_DENIED_UNANSWERED, q->flow->host.text, "too many questions are waiting for an answer", ret);
    return q->ask != NULL;
}

/* First what the request is like, then what a human says, then the values. */
static enum httpx_answer request_begin(struct flow_request *q, struct httpx_request *req, struct policy_verdict *ret) {
    enum httpx_answer answer = q->flow->ruling.guarded ? flow_secret_begin(q, req, ret) : HTTPX_ALLOW;

    if (answer == HTTPX_DENY)
        return HTTPX_DENY;
    if (q->msg.action == RULE_ASK) {
        if (!request_ask(q, ret))
            return HTTPX_DENY;
        return answer == HTTPX_COLLECT ? HTTPX_COLLECT : HTTPX_WAIT;
    }
    if (answer == HTTPX_WAIT && !flow_secret_fetch(q, ret))
        return HTTPX_DENY;
    return answer;
}

static void request_late(void *arg) {
    struct flow_request *q = arg;
    struct policy_verdict v = *q->denied;
    struct flow *f = q->flow;
    uint32_t id = q->id;

    request_free(request_take(f, id));
    inspect_decide(f->inspect, id, &v);
}

/* A refusal that comes again and again. False: it is answered at once. */
static bool request_hold(struct flow *f, uint32_t id, const struct policy_verdict *v) {
    uint64_t ms = pacer_wait(f->gate->pacer, uv_now(&f->gate->loop), f->host.text, f->port);
    struct flow_request *q = ms ? calloc(1, sizeof *q) : NULL;

    if (!ms)
        return false;
    if (q)
        *q = (struct flow_request){.flow = f, .id = id, .logged = true, .denied = malloc(sizeof *v)};
    if (!q || !q->denied || deadline_set(&f->gate->loop, &q->late, ms, request_late, q) < 0) {
        pacer_over(f->gate->pacer);
        free(q ? TAKE_PTR(q->denied) : NULL);
        request_free(q);
        return false;
    }
    *q->denied = *v;
    q->next = f->requests;
    f->requests = q;
    return true;
}

static enum httpx_answer http_judge(void *arg, struct httpx_request *req, struct policy_verdict *ret) {
    struct flow *f = arg;
    struct policy_request question = flow_question(f);
    enum httpx_answer answer = HTTPX_DENY;
    struct flow_request *q = NULL;

    question.method = req->upgrade ? POLICY_WEBSOCKET : req->method;
    question.path = &req->path;
    gate_judge(f->gate, &question, ret);
    if (f->ruling.inspect)
        http_head_strip_overrides(req->head);
    if (ret->action == RULE_ASK && flow_is_approved(f, ret))
        ret->action = RULE_ALLOW;
    if (ret->action != RULE_DENY) {
        q = request_add(f, req, ret);
        if (q)
            answer = request_begin(q, req, ret);
        else /* what cannot be logged does not happen */
            policy_refuse(POLICY_DENIED_UNANSWERED, f->host.text, "the gate is out of memory", ret);
    }
    if (answer == HTTPX_DENY) {
        report_denied(f, question.method, req->path.text, ret, refuse_status(ret), q ? q->msg.secret : "");
        request_free(q ? request_take(f, q->id) : NULL);
        if (request_hold(f, req->id, ret))
            return HTTPX_WAIT;
    }
    return answer;
}

static void http_refused(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why,
                         int status) {
    struct flow *f = arg;
    struct flow_request *q = request_take(f, id); /* one line for each: the last word counts */

    if (!q || !q->logged || why->code == POLICY_BODY_TOO_LARGE) /* of a WebSocket, whose line says that it began */
        report_denied(f, method, path, why, status, "");
    request_free(q);
}

static void http_answered(void *arg, uint32_t id, int status) {
    struct flow *f = arg;
    struct flow_request *q = flow_request_find(f, id);

    if (!q || q->logged)
        return;
    q->msg.status = (uint32_t)status;
    q->logged = true;
    gate_send(f->gate, &q->msg);
}

static void request_over(struct flow_request *q) {
    if (q && !q->logged)
        gate_send(q->flow->gate, &q->msg); /* it was judged, whatever came of it */
    request_free(q);
}

static void http_ended(void *arg, uint32_t id) {
    request_over(request_take(arg, id));
}

static bool is_allowed_still(struct flow *f, const struct flow_request *q) {
    struct http_path *path = malloc(sizeof *path);
    struct policy_request question = flow_question(f);
    struct policy_verdict v = {.action = RULE_DENY};
    bool judged = path && http_path_parse(q->path, strlen(q->path), path, NULL) == 0;

    question.method = q->msg.method;
    question.path = path;
    if (judged)
        gate_judge(f->gate, &question, &v);
    if (judged && v.action == RULE_DENY)
        report_denied(f, q->msg.method, q->path, &v, 0, "");
    free(path);
    return v.action != RULE_DENY;
}

bool flow_http_judge_again(struct flow *f) {
    for (const struct flow_request *q = f->requests; q; q = q->next)
        if (!q->denied && !is_allowed_still(f, q))
            return false;
    return true;
}

struct httpx_hooks flow_http_hooks(struct flow *f) {
    return (struct httpx_hooks){
        .arg = f,
        .judge = http_judge,
        .refused = http_refused,
        .answered = http_answered,
        .collected = f->ruling.guarded ? flow_secret_collected : NULL,
        .sending = f->ruling.guarded ? flow_secret_sending : NULL,
        .answer_head = f->ruling.guarded ? flow_secret_answer_head : NULL,
        .receiving = f->ruling.guarded ? flow_secret_receiving : NULL,
        .pause = f->ruling.guarded ? flow_secret_pause : NULL,
        .ended = http_ended,
    };
}

void flow_http_done(struct flow *f) {
    while (f->requests)
        request_over(request_take(f, f->requests->id));
}
