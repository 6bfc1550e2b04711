/* SPDX-License-Identifier: Apache-2.0 */
/* What a running gate says, and what is done about it. Nothing of it is believed beyond its form (gatemsg_sane()). */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "policy/rules/rule.h"
#include "proto/initmsg.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"

enum { SSH_NAME_MAX = 60 /* a fingerprint is shorter */, DENIED_SHOWN = 10 };

static const char *const kind_names[GATE_EVENT_KINDS] = {
    [GATE_EVENT_LOOKUP] = "lookup", [GATE_EVENT_CONNECTION] = "connection", [GATE_EVENT_REQUEST] = "request",
    [GATE_EVENT_END] = "end",       [GATE_EVENT_TROUBLE] = "trouble",
};

static int on_ready(struct gatekeeper *g, const struct gate_msg *m) {
    if (m->value >= 0) {
        g->ready = true;
        return 0;
    }
    if (!g->finishing)
        log_line("network: bawn-gate refused its rules: %s", m->host);
    return g->ready ? 0 : -EPROTO; /* without any it is of no use; with the old ones it goes on */
}

/* Refusals, and each connection once: of an inspected one, the first request. */
static bool is_for_audit(struct gatekeeper *g, const struct gate_msg *m) {
    if (m->kind == GATE_EVENT_END || m->kind == GATE_EVENT_TROUBLE)
        return false;
    if (m->action == RULE_DENY || m->kind != GATE_EVENT_REQUEST)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(g->audited); i++)
        if (g->audited[i] == m->flow)
            return false;
    g->audited[g->next_audited++ % ARRAY_LEN(g->audited)] = m->flow;
    return true;
}

/* At the terminal, while the run goes on: each host once, and not too many of them. Hosts are printable (gatemsg_sane()). */
static void show_denied(struct gatekeeper *g, const struct gate_msg *m) {
    if (g->shown > DENIED_SHOWN || m->kind == GATE_EVENT_LOOKUP || g->finishing || !isatty(STDERR_FILENO))
        return;
    if (g->shown++ < DENIED_SHOWN)
        log_line("network: %s:%" PRIu32 " denied (%s)", m->host, m->port, policy_codes[m->code].name);
    else
        log_line("network: more hosts are denied, which are not shown; see 'bawn policy log'");
}

static void on_event(struct gatekeeper *g, const struct gate_msg *m) {
    uint64_t refused = netcount_add(&g->count, m);

    g->flows += m->kind == GATE_EVENT_END;
    if (refused == 1)
        show_denied(g, m);
    if (!g->log)
        return;
    if (refused && !netlog_is_new(g->log, kind_names[m->kind], m))
        return;
    netlog_add(g->log, AUDIT_NETWORK, kind_names[m->kind], m, 1);
    if (is_for_audit(g, m))
        netlog_audit(g->log, AUDIT_NETWORK, kind_names[m->kind], m, 1);
}

static int on_ask(struct gatekeeper *g, const struct gate_msg *m) {
    if (!g->rules.can_ask || g->finishing)
        return gate_link_send(&g->link, GATE_MSG_ANSWER, m->id, GATE_DENY, -1);
    asker_ask(g->opts.asker, m); /* of the type ASK: no gate makes it a question about a login */
    return 0;
}

/* One for each gate at a time. Who asks again has lost it: it is ended, and the next one comes after a pause. */
int gate_broker_answer(struct gatekeeper *g) {
    CLEANUP(closep) int sock = -1, config = -1;
    struct err err = {0};
    int r = -ENOENT;

    if (!g->finishing && brokerkeeper_needed(g->brokers))
        r = gate_rules_config(&g->rules, &g->published, &config, &err);
    r = r < 0 ? r : brokerkeeper_start(g->brokers, TAKE_FD(config), &sock, &err);
    g->broker_wanted = r == -EAGAIN;
    if (g->broker_wanted)
        return 0;
    if (r < 0 && !g->broker_refused && err.msg[0])
        log_err(&err);
    g->broker_refused |= r < 0;
    return gate_link_send(&g->link, GATE_MSG_BROKER, 0, 0, TAKE_FD(sock));
}

/* Logins: the user is asked, outside, and without a yes nothing opens --------------------------------------------- */

enum { HTTPS_PORT = 443 };

/* For people and the log: whose login it is, and where. */
static void describe_login(const struct opener_login *what, struct gate_msg *m) {
    const char *host = what->grant->c.authorize_url + strlen("https://");

    *m = (struct gate_msg){.type = GATE_MSG_OPEN, .action = RULE_ASK, .code = POLICY_ASK, .port = HTTPS_PORT};
    snprintf(m->host, sizeof m->host, "%.*s", (int)strcspn(host, "/?#:"), host);
    snprintf(m->method, sizeof m->method, "login");
    snprintf(m->secret, sizeof m->secret, "%s", what->grant->c.name);
}

static void deliver(struct gatekeeper *g) {
    if (g->finishing || gate_ask_init(g, (uint32_t)LOGIN_INSIDE_ID, g->login.what.port) < 0)
        login_inside(&g->login, -1);
}

/* One that the user is in the middle of goes on. */
static void refuse_login(struct gatekeeper *g, const struct opener_login *what) {
    if (g->login.state == LOGIN_VAULT)
        return;
    login_refuse(&g->login, what);
    deliver(g);
}

/* Before it is done, and what cannot be written is not done. */
static int write_audit(const struct gatekeeper *g, const char *what, const struct gate_msg *m, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(AUDIT_LINE_MAX);

    if (!g->opts.audit)
        return 0;
    audit_add(&b, "what", what);
    audit_add(&b, "name", m->secret);
    audit_add(&b, "host", m->host);
    audit_add(&b, "flow", "browser, asked for by the sandbox");
    return audit_write(g->opts.audit, AUDIT_POLICY, buf_str(&b), err);
}

static void want_login(struct gatekeeper *g, const struct opener_login *what) {
    struct gate_msg m;

    if (g->login_asked) {
        log_line("the sandbox asks for another login, to %s, while you are asked about one: it is refused", what->grant->c.name);
        return;
    }
    describe_login(what, &m);
    if (!g->rules.can_ask) {
        log_line("the sandbox asks to log in to %s at %s: refused, as there is no terminal to ask at; use 'bawn secret login %s'",
                 m.secret, m.host, m.secret);
        gate_answer_log(g, &m, GATE_DENY);
        refuse_login(g, what);
        return;
    }
    g->login_asked = true;
    g->login_next = *what;
    asker_ask(g->opts.asker, &m);
}

void gate_login_answered(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer) {
    struct err err = {0};

    if (!g->login_asked)
        return;
    g->login_asked = false;
    if (answer == GATE_DENY) {
        log_line("the login to %s that the sandbox asked for was refused", question->secret);
        refuse_login(g, &g->login_next);
        return;
    }
    if (write_audit(g, "secret login", question, &err) < 0 ||
        login_start(&g->login, &g->login_next, g->opts.where->environ_, &err) < 0) {
        log_err(&err);
        refuse_login(g, &g->login_next);
    }
}

void gate_login_handle(struct gatekeeper *g) {
    struct err err = {0};
    struct gate_msg m;

    if (!login_handle(&g->login, &g->opener))
        return;
    describe_login(&g->login.what, &m);
    if (write_audit(g, g->login.ok ? "secret login done" : "secret login failed", &m, &err) < 0)
        log_err(&err);
    if (g->login.ok)
        brokerkeeper_renew(g->brokers, g->login.what.grant);
    deliver(g);
}

/* "SHA256:... why it did not sign" */
static void name_ssh_key(struct gate_msg *line, const struct broker_msg *m) {
    size_t n = strcspn(m->text, " ");

    snprintf(line->secret, sizeof line->secret, "ssh %.*s", (int)MIN_OF(n, (size_t)SSH_NAME_MAX), m->text);
    snprintf(line->path, sizeof line->path, "%s", m->text + n + (m->text[n] == ' '));
}

void gate_broker_used(void *arg, const struct broker_msg *m, const struct grant *grant) {
    struct gate_msg line = {.port = m->port, .action = m->value == 0 ? RULE_ALLOW : RULE_DENY, .code = POLICY_ALLOWED};
    struct gatekeeper *g = arg;

    if (m->value != 0)
        line.code = POLICY_SECRET_UNAVAILABLE;
    snprintf(line.host, sizeof line.host, "%s", m->host);
    snprintf(line.method, sizeof line.method, "%s", m->method);
    if (grant)
        snprintf(line.secret, sizeof line.secret, "%s", grant->c.name);
    else
        name_ssh_key(&line, m);
    if (m->value == 0)
        netcount_used(&g->count, line.secret, line.host, m->count);
    else if (!grant)
        netcount_not_signed(&g->count, line.host);
    if (!g->log)
        return;
    netlog_add(g->log, AUDIT_SECRET, "secret", &line, MAX_OF(m->count, 1));
    netlog_audit(g->log, AUDIT_SECRET, "secret", &line, MAX_OF(m->count, 1));
}

/* The gate may have been taken over: the address is judged here. */
static int on_open(struct gatekeeper *g, const struct gate_msg *m) {
    struct opener_login login;
    enum opener_result result;

    g->opener.only_show = g->finishing;
    result = opener_piece(&g->opener, m->path, m->value == 1, &login);
    if (result == OPENER_LOGIN)
        want_login(g, &login);
    else if (result == OPENER_REFUSED && login.port)
        refuse_login(g, &login);
    return 0;
}

/* bawn-init may be stuck, or may have been taken over: it is not waited for. */
int gate_ask_init(const struct gatekeeper *g, uint32_t id, uint32_t port) {
    struct init_msg msg = {.type = INIT_MSG_INSIDE, .value = (int32_t)port, .extra = (int32_t)id};
    struct pollfd p = {.fd = g->opts.init_control, .events = POLLOUT};

    if (g->finishing || p.fd < 0 || poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT))
        return -EAGAIN;
    return sock_send(p.fd, &msg, sizeof msg, NULL, 0);
}

int gate_inside_next(struct gatekeeper *g) {
    int r = 0;

    while (r == 0 && g->inside.n && g->inside.asked < GATE_INSIDE_AT_ONCE) {
        uint32_t id = g->inside.v[0].id;
        int asked = gate_ask_init(g, id, g->inside.v[0].port);

        memmove(g->inside.v, g->inside.v + 1, --g->inside.n * sizeof g->inside.v[0]);
        g->inside.asked += asked == 0;
        if (asked < 0)
            r = gate_link_send(&g->link, GATE_MSG_INSIDE, id, -asked, -1);
    }
    return r;
}

static int on_want_inside(struct gatekeeper *g, const struct gate_msg *m) {
    if (!published_has(&g->published, m->port) || (int32_t)m->id < 0)
        return gate_link_send(&g->link, GATE_MSG_INSIDE, m->id, EACCES, -1);
    if (g->inside.n == GATE_INSIDE_MAX)
        return gate_link_send(&g->link, GATE_MSG_INSIDE, m->id, EAGAIN, -1);
    g->inside.v[g->inside.n].id = m->id;
    g->inside.v[g->inside.n++].port = m->port;
    return gate_inside_next(g);
}

int gate_event_take(struct gatekeeper *g, const struct gate_msg *m) {
    switch (m->type) {
    case GATE_MSG_READY:
        return on_ready(g, m);
    case GATE_MSG_EVENT:
        on_event(g, m);
        return 0;
    case GATE_MSG_ASK:
        return on_ask(g, m);
    case GATE_MSG_CANCEL:
        if (g->opts.asker)
            asker_cancel(g->opts.asker, m->id);
        return 0;
    case GATE_MSG_WANT_BROKER:
        return gate_broker_answer(g);
    case GATE_MSG_WANT_INSIDE:
        return on_want_inside(g, m);
    case GATE_MSG_REQUEST:
        return gate_request_event(g, m);
    case GATE_MSG_OPEN:
        return on_open(g, m);
    default:
        return -EBADMSG;
    }
}

/* Answers of people ------------------------------------------------------------------------------------------------ */

void gate_answer_rule(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer) {
    CLEANUP(buf_done) struct buf rule = BUF_INIT(8 * 1024);
    char id[RULE_ID_MAX + 1];
    struct err err = {0};
    int r = gate_rules_for(question, &rule);

    if (r < 0) {
        log_line("network: no rule can say exactly what was asked for, so it is allowed only once");
        return;
    }
    if (answer == GATE_ALLOW_ALWAYS) {
        r = gate_rules_add_always(&g->rules, buf_str(&rule), &err);
        if (r < 0) {
            err_ctx(&err, r, "network: allowed for this run only");
            log_err(&err);
        }
    }
    /* Also if it is in the file now: what this run was allowed stays allowed. */
    r = gate_rules_add_session(&g->rules, buf_str(&rule), id, &err);
    if (r < 0)
        log_err(&err);
    gate_rules_reload(&g->rules);
    gate_send_config(g);
}

void gate_answer_log(struct gatekeeper *g, const struct gate_msg *question, enum gate_answer answer) {
    struct gate_msg m = *question;

    m.action = answer == GATE_DENY ? RULE_DENY : RULE_ALLOW;
    m.code = answer == GATE_DENY ? POLICY_DENIED_UNANSWERED : POLICY_ALLOWED;
    if (!g->log)
        return;
    netlog_add(g->log, AUDIT_ASK, asker_answer_names[answer], &m, 1);
    netlog_audit(g->log, AUDIT_ASK, asker_answer_names[answer], &m, 1);
}
