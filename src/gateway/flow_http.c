#include "gateway/flow_priv.h"
#include "gateway/refuse.h"
#include "gateway/why.h"

/* A request that was judged, until it is over. Once its answer is known it is logged: there is one line for both. */
struct flow_request {
    struct flow *flow;
    struct flow_request *next;
    uint32_t id;
    struct ask *ask;
    uint64_t max_body;
    bool logged;
    char *path; /* whole; msg's is cut */
    struct gate_msg msg;
};

static void request_fill(struct flow *f, const char *method, const char *path, const struct policy_verdict *v,
                         struct gate_msg *m) {
    char address[ADDR_TEXT_SIZE];

    gate_event_fill(m, GATE_EVENT_REQUEST, f->id, f->host.text, f->port, v);
    snprintf(m->address, sizeof m->address, "%s", flow_address_text(f, address));
    snprintf(m->method, sizeof m->method, "%s", method ? method : "");
    snprintf(m->path, sizeof m->path, "%.*s", (int)strcspn(path ? path : "", "?"), path ? path : "");
}

static void report_denied(struct flow *f, const char *method, const char *path, const struct policy_verdict *v, int status) {
    struct gate_msg m;

    request_fill(f, method, path, v, &m);
    m.action = RULE_DENY;
    m.status = (uint32_t)status;
    gate_send(f->gate, &m);
    why_note(f->gate->why, gate_now_s(f->gate), f->host.text, f->port, v);
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
    request_fill(f, req->method, req->path.text, v, &q->msg);
    q->next = f->requests;
    f->requests = q;
    return q;
}

static void request_answered(void *arg, enum gate_answer answer) {
    struct flow_request *q = arg;
    struct flow *f = q->flow;
    struct policy_verdict v = {.action = RULE_ALLOW, .code = POLICY_ALLOWED, .max_body = q->max_body, .layer = "session"};
    uint32_t id = q->id;

    q->ask = NULL;
    if (answer == GATE_DENY) {
        policy_refuse(POLICY_DENIED_UNANSWERED, f->host.text, "the user was asked, and said no or did not answer in time", &v);
        report_denied(f, q->msg.method, q->msg.path, &v, refuse_status(&v));
        request_free(request_take(f, id));
    } else {
        q->msg.action = RULE_ALLOW;
    }
    inspect_decide(f->inspect, id, &v);
}

static enum httpx_answer request_ask(struct flow *f, const struct httpx_request *req, struct policy_verdict *v) {
    struct flow_request *q = request_add(f, req, v);

    if (q)
        q->ask = gate_ask(f->gate, &q->msg, request_answered, q);
    if (q && q->ask)
        return HTTPX_WAIT;
    request_free(q ? request_take(f, req->id) : NULL);
    policy_refuse(POLICY_DENIED_UNANSWERED, f->host.text, "too many questions wait for an answer", v);
    report_denied(f, req->method, req->path.text, v, refuse_status(v));
    return HTTPX_DENY;
}

/* Some servers let these stand for the method: a rule about methods would judge the wrong one. */
static void drop_other_methods(struct http_head *head) {
    static const char *const names[] = {"x-http-method-override", "x-http-method", "x-method-override"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        http_head_remove(head, names[i]);
}

static enum httpx_answer http_judge(void *arg, struct httpx_request *req, struct policy_verdict *ret) {
    struct flow *f = arg;
    const struct policy_request question = {
        .host = &f->host,
        .port = f->port,
        .is_tls = f->is_tls,
        .method = req->method,
        .path = &req->path,
        .address = f->address.len ? &f->address : NULL,
    };

    gate_judge(f->gate, &question, ret);
    if (f->look)
        drop_other_methods(req->head);
    if (ret->action == RULE_ASK && !f->approved)
        return request_ask(f, req, ret);
    if (ret->action == RULE_DENY) {
        report_denied(f, req->method, req->path.text, ret, refuse_status(ret));
        return HTTPX_DENY;
    }
    ret->action = RULE_ALLOW;
    if (request_add(f, req, ret))
        return HTTPX_ALLOW;
    policy_refuse(POLICY_DENIED_UNANSWERED, f->host.text, "the gate has no memory",
                  ret); /* what cannot be logged does not happen */
    return HTTPX_DENY;
}

static void http_refused(void *arg, uint32_t id, const char *method, const char *path, const struct policy_verdict *why,
                         int status) {
    struct flow *f = arg;

    request_free(request_take(f, id)); /* one line for each: the last word counts */
    report_denied(f, method, path, why, status);
}

static void http_answered(void *arg, uint32_t id, int status) {
    struct flow *f = arg;
    struct flow_request *q = f->requests;

    while (q && q->id != id)
        q = q->next;
    if (!q || q->logged)
        return;
    q->msg.status = (uint32_t)status;
    q->logged = true;
    gate_send(f->gate, &q->msg);
}

static void http_ended(void *arg, uint32_t id) {
    request_free(request_take(arg, id));
}

static bool is_allowed_still(struct flow *f, const struct flow_request *q) {
    struct http_path *path = malloc(sizeof *path);
    const struct policy_request question = {
        .host = &f->host,
        .port = f->port,
        .is_tls = f->is_tls,
        .method = q->msg.method,
        .path = path,
        .address = f->address.len ? &f->address : NULL,
    };
    struct policy_verdict v = {.action = RULE_DENY};
    bool judged = path && http_path_parse(q->path, strlen(q->path), path, NULL) == 0;

    if (judged)
        gate_judge(f->gate, &question, &v);
    if (judged && v.action == RULE_DENY)
        report_denied(f, q->msg.method, q->path, &v, 0);
    free(path);
    return v.action != RULE_DENY;
}

bool flow_http_judge_again(struct flow *f) {
    for (const struct flow_request *q = f->requests; q; q = q->next)
        if (!is_allowed_still(f, q))
            return false;
    return true;
}

struct httpx_hooks flow_http_hooks(struct flow *f) {
    return (struct httpx_hooks){
        .arg = f, .judge = http_judge, .refused = http_refused, .answered = http_answered, .ended = http_ended};
}

void flow_http_done(struct flow *f) {
    while (f->requests) {
        struct flow_request *q = f->requests;

        f->requests = q->next;
        if (!q->logged)
            gate_send(f->gate, &q->msg); /* it was judged, whatever came of it */
        request_free(q);
    }
}
