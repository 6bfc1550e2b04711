/* SPDX-License-Identifier: Apache-2.0 */
/* Merges events of one kind about one host. */
#include "supervisor/network/netmerge.h"

#include "base/str.h"
#include "policy/rules/verdict.h"

enum net_class net_class_of(enum audit_type type, const struct gate_msg *m) {
    if (m->code == POLICY_SECRET_MISPLACED || m->code == POLICY_SECRET_UNAVAILABLE)
        return NET_BLOCKED;
    if (type == AUDIT_SECRET)
        return m->action == RULE_DENY ? NET_BLOCKED : NET_SECRET;
    if (type == AUDIT_ASK)
        return NET_ANSWER;
    if (m->action != RULE_DENY || m->kind == GATE_EVENT_END || m->kind == GATE_EVENT_TROUBLE)
        return NET_ALLOWED;
    return m->kind == GATE_EVENT_LOOKUP ? NET_LOOKUP : NET_DENIED;
}

void netmerge_done(struct netmerge *g) {
    free(g->v);
    *g = (struct netmerge){0};
}

static bool is_same(const struct netmerge_event *e, enum audit_type type, const char *kind, const struct gate_msg *m) {
    return e->type == type && str_eq(e->kind, kind) && e->m.action == m->action && e->m.code == m->code && e->m.port == m->port &&
           str_eq(e->m.host, m->host) && str_eq(e->m.secret, m->secret) && str_eq(e->m.rule, m->rule);
}

static struct netmerge_event *find_event(struct netmerge *g, enum audit_type type, const char *kind, const struct gate_msg *m) {
    for (size_t i = 0; i < g->n; i++)
        if (is_same(&g->v[i], type, kind, m))
            return &g->v[i];
    if (!g->v)
        g->v = calloc(NETMERGE_MAX, sizeof *g->v);
    return g->v && g->n < NETMERGE_MAX ? &g->v[g->n++] : &g->others[net_class_of(type, m)];
}

static void clear_if_other(char *text, const char *now) {
    if (!str_eq(text, now))
        text[0] = 0;
}

/* What does not hold for all of them is left out. Those that are together only because there is no more room may differ in all. */
static void join_events(struct netmerge_event *e, const struct gate_msg *m) {
    e->m.sent += m->sent;
    e->m.received += m->received;
    e->m.micros += m->micros;
    clear_if_other(e->m.host, m->host);
    clear_if_other(e->m.address, m->address);
    clear_if_other(e->m.rule, m->rule);
    clear_if_other(e->m.layer, m->layer);
    clear_if_other(e->m.method, m->method);
    clear_if_other(e->m.path, m->path);
    clear_if_other(e->m.secret, m->secret);
    e->m.port = e->m.port == m->port ? m->port : 0;
    e->m.status = e->m.status == m->status ? m->status : 0;
}

void netmerge_add(struct netmerge *g, const struct netmerge_event *more, uint64_t now_ms) {
    struct netmerge_event *e = find_event(g, more->type, more->kind, &more->m);
    uint64_t count = e->count;

    if (count == 0)
        *e = *more;
    else
        join_events(e, &more->m);
    e->count = count + more->count;
    e->last_ns = more->last_ns;
    if (g->due_ms)
        return;
    g->pause_ms = g->pause_ms ? MIN_OF(2 * g->pause_ms, (uint64_t)NETMERGE_MOST_MS) : NETMERGE_FIRST_MS;
    g->due_ms = now_ms + g->pause_ms;
}

void netmerge_take(struct netmerge *g, netmerge_fn *fn, void *arg) {
    for (size_t i = 0; i < g->n; i++)
        fn(arg, &g->v[i]);
    for (size_t i = 0; i < NET_CLASSES; i++)
        if (g->others[i].count)
            fn(arg, &g->others[i]);
    for (size_t i = 0; i < g->n; i++)
        g->v[i].count = 0;
    memset(g->others, 0, sizeof g->others);
    g->n = 0;
    g->due_ms = 0;
}
