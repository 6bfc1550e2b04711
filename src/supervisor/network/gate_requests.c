/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent asks a human for: a host, a path, a package, with its reason. It comes from inside, through the gate (bawn.internal/request),
 * or from a client outside that works for an agent (`bawn mcp`, over the control socket). Both only propose: the question waits with the
 * others (asker.h), and nothing but a human's answer has an effect. All its words are made printable before anything looks at them.
 */
#include <errno.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "policy/host/host.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"

enum { REQUEST_NETWORK, REQUEST_PATH, REQUEST_PACKAGE, REQUEST_KINDS };
static const char *const request_kinds[REQUEST_KINDS] = {"network", "path", "package"};

/* -- a request becomes a question ---------------------------------------------------------------------------------------- */

/* m has kind, value and reason as they came (proto/gatemsg.h). NULL: it can be asked; else why not. */
static const char *request_check(struct gate_msg *m) {
    int kind = str_index(m->method, request_kinds, REQUEST_KINDS);
    struct host host;
    uint16_t port = 0;

    m->host[0] = 0;
    m->port = 0;
    if (kind < 0)
        return "\"kind\" must be network, path or package";
    if (!m->path[0] || !m->pattern[0])
        return "\"value\" and \"reason\" must not be empty";
    if (strchr(m->path, '?') || strchr(m->path, '*'))
        return "\"value\" must be one host, path or package, in plain letters, without wildcards";
    if (kind == REQUEST_PATH && m->path[0] != '/')
        return "\"value\" must be an absolute path";
    if (kind != REQUEST_NETWORK)
        return NULL;
    if (host_parse_with_port(m->path, strlen(m->path), &host, &port, NULL) < 0)
        return "\"value\" must be HOST or HOST:PORT";
    snprintf(m->host, sizeof m->host, "%s", host.text);
    m->port = port;
    return NULL;
}

/* Before it is asked, and before an answer has an effect; what cannot be written is not done. */
static int request_audit(const struct gatekeeper *g, const struct gate_msg *m, const char *answer, const char *said,
                         struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    if (!g->opts.audit)
        return 0;
    audit_add(&b, "answer", answer);
    audit_add(&b, "kind", m->method);
    audit_add(&b, "value", m->path);
    audit_add(&b, "reason", m->pattern);
    audit_add(&b, "said", said && said[0] ? said : NULL);
    return audit_write(g->opts.audit, AUDIT_REQUEST, buf_str(&b), err);
}

/* What to say at once; NULL: it waits. */
static const char *request_ask(struct gatekeeper *g, struct gate_msg *m) {
    const char *why = request_check(m);
    struct err err = {0};

    if (why)
        return why;
    if (!g->opts.asker || g->finishing)
        return "the user is not asked: the sandbox was started with --ask never";
    if (request_audit(g, m, "asked", NULL, &err) < 0) {
        log_err(&err);
        return "it could not be written to the audit log";
    }
    asker_ask(g->opts.asker, m);
    return NULL;
}

int gate_request_event(struct gatekeeper *g, const struct gate_msg *m) {
    struct gate_msg question = *m;
    const char *why;

    question.value = 0;
    why = request_ask(g, &question);
    return why ? gate_link_say(&g->link, m->id, GATE_DENY, why) : 0;
}

/* -- from a client outside ------------------------------------------------------------------------------------------------ */

static struct gate_outcome *request_find(struct gatekeeper *g, uint32_t number) {
    struct gate_outcome *o = g->requests.v ? &g->requests.v[number % GATE_OUTCOMES] : NULL;

    return o && number && o->number == number ? o : NULL;
}

/* The place of the next one. NULL: no memory. */
static struct gate_outcome *request_room(struct gatekeeper *g, uint32_t number) {
    if (!g->requests.v)
        g->requests.v = calloc(GATE_OUTCOMES, sizeof *g->requests.v);
    return g->requests.v ? &g->requests.v[number % GATE_OUTCOMES] : NULL;
}

void gate_command_request(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    struct gate_msg m = {.type = GATE_MSG_REQUEST, .value = GATE_REQUEST_OUTSIDE, .id = g->requests.last + 1};
    struct gate_outcome *o = request_room(g, m.id);
    const char *value = json_get_text(request, "value"), *why = NULL;
    struct jsonout j = {.to = answer, .compact = true};

    snprintf(m.method, sizeof m.method, "%s", json_get_text(request, "kind"));
    snprintf(m.path, sizeof m.path, "%s", value);
    snprintf(m.pattern, sizeof m.pattern, "%s", json_get_text(request, "reason"));
    if (!o)
        why = "no memory for it";
    else if (strlen(value) >= sizeof m.path)
        why = "\"value\" is too long";
    else if (gatemsg_sane(&m) < 0)
        why = "it cannot be read";
    if (!why) {
        *o = (struct gate_outcome){.number = m.id, .waiting = true};
        g->requests.last = m.id;
        why = request_ask(g, &m);
    }
    if (why) {
        control_error(answer, why);
        return;
    }
    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", true);
    jsonout_u64(&j, "request", m.id);
    jsonout_close(&j, '}');
}

void gate_command_requested(struct gatekeeper *g, const json_t *request, struct buf *answer) {
    int64_t number = json_get_int(request, "request", 0);
    const struct gate_outcome *o = number > 0 && number <= UINT32_MAX ? request_find(g, (uint32_t)number) : NULL;
    struct jsonout j = {.to = answer, .compact = true};

    if (!o) {
        control_error(answer, "no such request");
        return;
    }
    jsonout_open(&j, NULL, '{');
    jsonout_bool(&j, "ok", true);
    jsonout_bool(&j, "waiting", o->waiting);
    if (!o->waiting) {
        jsonout_text(&j, "answer", asker_answer_names[o->answer]);
        jsonout_text(&j, "reason", o->reason);
        jsonout_text(&j, "note", o->note);
    }
    jsonout_close(&j, '}');
}

/* -- an answer ------------------------------------------------------------------------------------------------------------ */

/* Rules take effect now, all else when the sandbox is started anew: mounts of one that runs do not change. */
static void request_note(const struct gatekeeper *g, const struct gate_msg *m, enum gate_answer answer, struct buf *out) {
    const char *name = g->opts.sandbox;

    if (answer == GATE_DENY)
        return;
    if (str_eq(m->method, request_kinds[REQUEST_NETWORK]))
        buf_adds(out, answer == GATE_ALLOW_ONCE ? "connections are allowed for one minute; those still open then are closed"
                                                : "connections are allowed from now on");
    else if (str_eq(m->method, request_kinds[REQUEST_PATH]))
        buf_addf(out, "it takes effect when the user starts the sandbox anew: bawn stop %s && bawn start %s --mount ", name,
                 name);
    else
        buf_adds(
            out,
            "Bawn installs nothing: the user installs it on the host or in the sandbox's image, and starts the sandbox anew");
    if (str_eq(m->method, request_kinds[REQUEST_PATH]))
        buf_add_shell(out, m->path);
}

static void request_effect(struct gatekeeper *g, const struct gate_msg *m, enum gate_answer answer) {
    struct gate_msg question = *m;
    struct err err = {0};

    if (answer == GATE_DENY || !str_eq(m->method, request_kinds[REQUEST_NETWORK]))
        return;
    question.method[0] = question.path[0] = 0; /* a rule about the host */
    if (answer != GATE_ALLOW_ONCE) {
        gate_answer_rule(g, &question, answer);
        return;
    }
    if (gate_rules_add_once(&g->rules, &question, clock_ms() + GATE_ONCE_MS, &err) < 0)
        log_err(&err);
    else
        gate_send_config(g);
}

void gate_request_answered(struct gatekeeper *g, const struct gate_msg *m, const uint32_t *ids, size_t n,
                           enum gate_answer answer) {
    CLEANUP(buf_done) struct buf note = BUF_INIT(1024);
    const char *said = asker_said(g->opts.asker);
    struct err err = {0};

    if (request_audit(g, m, asker_answer_names[answer], said, &err) < 0) {
        log_err(&err);
        answer = GATE_DENY;
        said = "it could not be written to the audit log";
    }
    request_effect(g, m, answer);
    request_note(g, m, answer, &note);
    snprintf(g->requests.note, sizeof g->requests.note, "%s", buf_str(&note));
    for (size_t i = 0; i < n; i++) {
        struct gate_outcome *o = m->value == GATE_REQUEST_OUTSIDE ? request_find(g, ids[i]) : NULL;

        if (m->value != GATE_REQUEST_OUTSIDE)
            gate_link_say(&g->link, ids[i], answer, said[0] ? said : buf_str(&note));
        if (!o)
            continue;
        o->waiting = false;
        o->answer = answer;
        snprintf(o->reason, sizeof o->reason, "%s", said);
        snprintf(o->note, sizeof o->note, "%s", buf_str(&note));
    }
}

int gate_requests_timeout(const struct gatekeeper *g) {
    return clock_left_ms(gate_rules_once_ms(&g->rules));
}

void gate_requests_handle(struct gatekeeper *g) {
    if (gate_rules_end_once(&g->rules, clock_ms()))
        gate_send_config(g);
}
