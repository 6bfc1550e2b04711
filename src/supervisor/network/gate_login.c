/* SPDX-License-Identifier: Apache-2.0 */
/* Logins that a sandbox wants: the user is asked, outside, and without a yes nothing opens. */
#include <errno.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "policy/rules/rule.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"

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
void gate_login_refuse(struct gatekeeper *g, const struct opener_login *what) {
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

void gate_login_want(struct gatekeeper *g, const struct opener_login *what) {
    struct gate_msg m;

    if (g->login_asked) {
        log_line("the sandbox asks for another login, to %s, while you are asked about one: it is refused", what->grant->c.name);
        return;
    }
    describe_login(what, &m);
    if (!g->opts.asker) {
        log_line("the sandbox asks to log in to %s at %s: refused, as there is no terminal to ask at; use 'bawn secret login %s'",
                 m.secret, m.host, m.secret);
        gate_answer_log(g, &m, GATE_DENY);
        gate_login_refuse(g, what);
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
        gate_login_refuse(g, &g->login_next);
        return;
    }
    if (write_audit(g, "secret login", question, &err) < 0 ||
        login_start(&g->login, &g->login_next, g->opts.where->environ_, &err) < 0) {
        log_err(&err);
        gate_login_refuse(g, &g->login_next);
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
