/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a flow, and a new one when the rules change. */
#include <sys/socket.h>

#include "gateway/flow/flow_priv.h"
#include "gateway/secret/injection.h"
#include "os/fd.h"

enum { PORT_HTTP = 80, PORT_TLS = 443 };

#define OPAQUE "A credential belongs to this host, and its rule forbids inspection (inspect: no)"

struct policy_request flow_question(const struct flow *f) {
    return (struct policy_request){
        .host = &f->host, .port = f->port, .is_tls = f->is_tls, .address = f->address.len ? &f->address : NULL};
}

void flow_report_allowed(struct flow *f) {
    const struct policy_verdict v = {.action = RULE_ALLOW, .code = f->ruling.cause.code, .layer = f->ruling.cause.layer};
    char address[ADDR_TEXT_SIZE];
    struct gate_msg m;

    if (f->ruling.reported)
        return;
    f->ruling.reported = true;
    gate_event_fill(&m, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, &v);
    snprintf(m.rule, sizeof m.rule, "%s", f->ruling.cause.rule);
    snprintf(m.pattern, sizeof m.pattern, "%s", f->ruling.cause.pattern);
    snprintf(m.address, sizeof m.address, "%s", flow_address_text(f, address));
    gate_send(f->gate, &m);
}

static void store_cause(struct flow *f, const struct policy_verdict *v) {
    f->ruling.cause.code = v->code;
    f->ruling.cause.layer = v->layer;
    snprintf(f->ruling.cause.rule, sizeof f->ruling.cause.rule, "%s", v->rule ? v->rule->id : "");
    snprintf(f->ruling.cause.pattern, sizeof f->ruling.cause.pattern, "%s", v->pattern);
}

bool flow_is_approved(const struct flow *f, const struct policy_verdict *v) {
    return f->ruling.approved && (!v->asks_address || f->ruling.address_too);
}

/* The client may speak now, or waits for our word that it is connected. */
static void flow_go(struct flow *f) {
    if (f->ruling.wants_first && f->entry.kind == ENTRY_NONE)
        flow_first(f);
    else
        flow_dial(f);
}

static void flow_answered(void *arg, enum gate_answer answer) {
    struct flow *f = arg;

    f->ask = NULL;
    if (answer == GATE_DENY) {
        flow_refuse_code(f, POLICY_DENIED_UNANSWERED, "the user was asked, and said no or did not answer in time");
        return;
    }
    f->ruling.approved = true;
    f->ruling.address_too |= f->ruling.asks_address;
    if (f->first.done)
        flow_dial(f); /* it was the address that had to be asked about */
    else
        flow_go(f);
}

/* A client that gives up while it waits is noticed by this; its bytes stay where they are. */
static void waiting_client(void *arg, uint32_t events) {
    struct flow *f = arg;
    char byte;

    if ((events & (EPOLLHUP | EPOLLERR)) || recv(f->client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        flow_free(f);
    else
        watch_set(f->gate->hub, &f->watch, 0); /* it has said all, and waits for the answer */
}

void flow_ask(struct flow *f, const struct policy_verdict *v) {
    struct gate_msg question;
    uint64_t ms = f->gate->config.ask_timeout_ms;

    gate_event_fill(&question, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, v);
    f->ruling.asks_address = v->asks_address;
    f->ask = gate_ask(f->gate, &question, flow_answered, f);
    if (!f->ask)
        flow_refuse_code(f, POLICY_DENIED_UNANSWERED, "too many questions are waiting for an answer");
    else
        flow_wait(f, FLOW_ASK, EPOLLRDHUP, waiting_client, 2 * ms + FLOW_FIRST_MS);
}

static bool may_not_inspect(const struct policy_verdict *v) {
    return v->look == LOOK_NO && v->rule && v->rule->inspect == INSPECT_NO;
}

static bool has_credential(const struct flow *f) {
    const struct gate_config *c = &f->gate->config;

    return cred_any_for(c->grants, c->n_grants, f->host.text, f->port);
}

/* A rule needs it, or the sandbox has credentials: then no placeholder may pass unseen, and no value be left out. */
static bool must_inspect(const struct flow *f, const struct policy_verdict *v) {
    if (v->look != LOOK_NO)
        return true;
    return f->gate->config.n_grants && !may_not_inspect(v) && (f->port == PORT_TLS || has_credential(f));
}

/* Answers may have a value in them, and no rule forbids to inspect them. */
static bool may_cover(const struct flow *f, const struct policy_verdict *v) {
    const struct gate_config *c = &f->gate->config;

    return !may_not_inspect(v) && cred_any_at(c->grants, c->n_grants, f->host.text);
}

/* The host has a credential, and its rule forbids inspection: one of the two would be broken. */
static bool is_opaque(const struct flow *f, const struct policy_verdict *v) {
    return may_not_inspect(v) && has_credential(f);
}

static bool must_see_first(const struct flow *f, const struct policy_verdict *v) {
    if (f->entry.kind == ENTRY_URI)
        return false;
    if (f->port == PORT_HTTP)
        return !may_not_inspect(v);
    return f->port == PORT_TLS || must_inspect(f, v);
}

void flow_judge(struct flow *f) {
    const struct policy_request req = flow_question(f);
    struct policy_verdict v;

    gate_judge(f->gate, &req, &v);
    f->ruling.generation = f->gate->config.generation;
    f->ruling.wants_first = must_see_first(f, &v);
    f->ruling.inspect = must_inspect(f, &v);
    f->ruling.covers = may_cover(f, &v);
    store_cause(f, &v);
    if (v.action == RULE_DENY)
        flow_refuse(f, &v);
    else if (is_opaque(f, &v))
        flow_refuse_code(f, POLICY_CANNOT_LOOK, OPAQUE);
    else if (f->entry.kind == ENTRY_URI && f->port == PORT_TLS)
        flow_refuse_code(f, POLICY_NOT_TLS, NULL);
    else if (v.action == RULE_ASK && !(v.needs & NEEDS_HTTP) && !flow_is_approved(f, &v))
        flow_ask(f, &v);
    else
        flow_go(f);
}

/* The rules have changed: no question is left if they decide now. */
static void judge_asked(struct flow *f) {
    const struct policy_request req = flow_question(f);
    struct policy_verdict v;

    gate_judge(f->gate, &req, &v);
    if (v.action == RULE_ASK)
        return;
    gate_ask_cancel(TAKE_PTR(f->ask));
    flow_judge(f);
}

void flow_begin(struct flow *f) {
    struct gate *g = f->gate;

    if (!names_is_synthetic(&f->dest)) {
        struct addr plain = addr_unmapped(&f->dest);

        host_from_addr(&plain, &f->host);
        flow_judge(f);
        return;
    }
    if (names_find(g->names, &f->dest, gate_now_s(g), &f->host)) {
        names_hold(g->names, &f->dest);
        f->holds_name = true;
        flow_judge(f);
        return;
    }
    host_from_addr(&f->dest, &f->host);
    flow_refuse_code(f, POLICY_NOT_HANDED_OUT, NULL);
}

bool flow_judge_anew(struct flow *f) {
    const struct policy_request req = flow_question(f);
    struct policy_verdict v;

    if (f->ruling.generation == f->gate->config.generation)
        return true;
    gate_judge(f->gate, &req, &v);
    if (v.action == RULE_DENY || (v.action == RULE_ASK && !flow_is_approved(f, &v) && !(v.needs & NEEDS_HTTP))) {
        closep(&f->server);
        flow_refuse(f, &v);
        return false;
    }
    if (is_opaque(f, &v)) {
        closep(&f->server);
        flow_refuse_code(f, POLICY_CANNOT_LOOK, OPAQUE);
        return false;
    }
    f->ruling.inspect = must_inspect(f, &v);
    f->ruling.covers = may_cover(f, &v);
    return true;
}

static bool is_still_allowed(struct flow *f, struct policy_verdict *v) {
    const struct policy_request req = flow_question(f);

    gate_judge(f->gate, &req, v);
    if (f->state == FLOW_INSPECT)
        return v->action != RULE_DENY && (f->ruling.guarded || !f->gate->config.n_grants) && flow_http_judge_again(f);
    return (v->action == RULE_ALLOW || (v->action == RULE_ASK && flow_is_approved(f, v))) && !must_inspect(f, v) &&
           !is_opaque(f, v);
}

void flows_judge_again(struct gate *g) {
    struct policy_verdict v;

    for (struct flow *f = g->flows.first, *next; f; f = next) {
        uint64_t sent = 0, received = 0;

        next = f->next;
        if (f->state == FLOW_ASK) {
            judge_asked(f);
            continue;
        }
        if (f->state == FLOW_FIRST) {
            flow_judge_anew(f);
            continue;
        }
        if ((f->state != FLOW_RELAY && f->state != FLOW_INSPECT) || !f->host.len || is_still_allowed(f, &v))
            continue;
        if (v.action == RULE_DENY)
            gate_event(g, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, &v);
        if (f->relay)
            relay_bytes(f->relay, &sent, &received);
        if (f->inspect)
            inspect_bytes(f->inspect, &sent, &received);
        flow_end_event(f, sent, received);
        flow_abort(f);
    }
}
