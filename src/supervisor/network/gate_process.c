/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a gate: started by the first connection, and again when it ended. */
#include "supervisor/network/gate_process.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/helper.h"
#include "supervisor/network/asker.h"
#include "supervisor/network/gate_priv.h"

enum {
    DELAY_FIRST_MS = 100, /* before a gate that ended badly is started again */
    DELAY_MOST_MS = 5000,
    LIVED_MS = 10 * 1000, /* a gate that lived so long is not in a loop of crashes */
    FINISH_MS = 5000,     /* for its last events; a gate that works needs few of them */
    MESSAGES_PER_TURN = 256
};

static void answered(void *arg, const struct gate_msg *question, const uint32_t *ids, size_t n, enum gate_answer answer);

static int make_brokers(struct gatekeeper *g, struct err *err) {
    const struct run_credentials *c = g->opts.credentials;
    const struct broker_opts opts = {.ca = g->opts.ca,
                                     .grants = c ? c->grants : NULL,
                                     .n_grants = c ? c->n_grants : 0,
                                     .ssh = c && c->ssh.agent,
                                     .environ_ = g->opts.where->environ_,
                                     .state = g->opts.state,
                                     .program = g->opts.broker,
                                     .cgroup = g->opts.cgroup,
                                     .used = gate_broker_used,
                                     .arg = g};

    g->opener.grants = opts.grants;
    g->opener.n_grants = opts.n_grants;
    g->opener.environ_ = opts.environ_;
    return brokerkeeper_new(&opts, &g->brokers, err);
}

int gatekeeper_new(const struct gate_opts *opts, struct policy_files *files, struct gatekeeper **ret, struct err *err) {
    struct gatekeeper *g = calloc(1, sizeof *g);
    int r = 0;

    if (!g)
        return err_oom(err);
    g->opts = *opts; /* the rest is zero, and of most runs without a connection never touched */
    g->rules = (struct gate_rules)GATE_RULES_INIT;
    g->link = (struct gate_link)GATE_LINK_INIT;
    g->pid = g->messages = -1;
    g->opener = (struct opener)OPENER_INIT;
    g->login = (struct login)LOGIN_INIT;
    if (getrandom(&g->life.gates, sizeof g->life.gates, 0) < 0)
        g->life.gates = 0;
    if (opts->published)
        g->published = TAKE(*opts->published, (struct published){0});
    g->rules.where = opts->where;
    g->rules.files = TAKE(*files, (struct policy_files){0});
    g->rules.can_ask = opts->asker && !opts->only_requests;
    g->rules.credentials = opts->credentials;
    g->life.delay_ms = DELAY_FIRST_MS;
    if (opts->asker)
        asker_listen(opts->asker, answered, g);
    r = make_brokers(g, err);
    if (r == 0 && opts->state)
        r = netlog_new(opts->state, opts->sandbox, &g->log, err);
    if (g->log)
        netlog_also(g->log, opts->audit);
    if (r < 0)
        gatekeeper_free(g);
    else
        *ret = g;
    return r;
}

void gatekeeper_free(struct gatekeeper *g) {
    if (!g)
        return;
    gatekeeper_finish(g);
    if (g->opts.asker)
        asker_listen(g->opts.asker, NULL, NULL);
    brokerkeeper_free(g->brokers);
    login_end(&g->login);
    opener_done(&g->opener);
    gate_listeners_done(g);
    gate_rules_done(&g->rules);
    netcount_done(&g->count);
    netlog_free(g->log);
    free(g->requests.v);
    free(g);
}

/* The end of a gate ------------------------------------------------------------------------------------------------ */

static void report_end(struct gatekeeper *g, int status, const char *why) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(2048);
    char text[300], how[HELPER_END_SIZE];
    const char *line;

    if (g->life.reported)
        return;
    g->life.reported = true;
    buf_adds(&b, helper_how_ended(status, why, how));
    line = helper_message(g->messages, text, sizeof text);
    buf_adds(&b, line[0] ? ": " : "");
    buf_add_printable(&b, line); /* it may have been taken over */
    log_line("network: bawn-gate %s; it is started again at the next connection", buf_str(&b));
}

/* Open connections are lost with their gate; new ones wait in the listeners. why NULL: it ended by itself. */
static void gate_lost(struct gatekeeper *g, const char *why) {
    uint64_t now = clock_ms();
    int status;

    if (g->pid < 0)
        return;
    gate_link_close(&g->link);
    status = process_end(g->pid);
    g->pid = -1;
    brokerkeeper_end(g->brokers, true);
    g->broker_wanted = false;
    gate_rules_unwatch(&g->rules);
    g->inside.n = 0;
    g->inside.stale = g->inside.asked;
    if (g->opts.asker)
        asker_forget(g->opts.asker, g->finishing);
    g->login_asked = false;
    if (now - g->life.started_ms >= LIVED_MS) {
        g->life.delay_ms = DELAY_FIRST_MS;
        g->life.reported = false;
    }
    if (!g->finishing)
        report_end(g, status, why);
    closep(&g->messages);
    g->life.retry_ms = now + g->life.delay_ms;
    g->life.delay_ms = MIN_OF(2 * g->life.delay_ms, (unsigned)DELAY_MOST_MS);
}

/* The beginning ---------------------------------------------------------------------------------------------------- */

void gate_send_config(struct gatekeeper *g) {
    struct err err = {0};
    int fd = -1, broker = -1;

    if (g->pid < 0)
        return;
    g->rules.generation++;
    if (brokerkeeper_runs(g->brokers) && gate_rules_config(&g->rules, &g->published, &broker, &err) == 0)
        brokerkeeper_config(g->brokers, broker);
    if (gate_rules_config(&g->rules, &g->published, &fd, &err) < 0)
        log_err(&err);
    else if (gate_link_send(&g->link, GATE_MSG_CONFIG, g->life.gates, 0, fd) < 0)
        gate_lost(g, "it did not listen");
}

/* Without it everything else works. */
static void open_control(struct gatekeeper *g) {
    struct err err = {0};

    if (g->control || g->control_failed || g->opts.no_control)
        return;
    g->control_failed = control_server_new(g->opts.where->environ_, gate_command, g, &g->control, &err) < 0;
    if (g->control_failed) {
        err_ctx(&err, err.code, "'bawn policy' cannot reach this run");
        log_err(&err);
    }
}

/* Born with the descriptors of proto/gatemsg.h and nothing else of ours. */
static int start_gate(struct gatekeeper *g, struct err *err) {
    CLEANUP(helper_ends_done) struct helper_ends e = HELPER_ENDS_INIT;
    const char *file = getenv("SSL_CERT_FILE"); /* what the host trusts, if it is not the system's */
    CLEANUP(freep) char *trust = file ? str_dupf("SSL_CERT_FILE=%s", file) : NULL;
    struct helper h = {.name = "bawn-gate",
                       .program = g->opts.program,
                       .argv = (char *[]){"bawn-gate", NULL},
                       .envp = (char *[]){trust, NULL},
                       .cgroup = g->opts.cgroup};
    int r = file && !trust ? err_oom(err) : helper_ends_open(&e, h.name, err);

    if (r < 0)
        return r;
    gate_listeners_fill(g, &h);
    h.fds[STDIN_FILENO] = h.fds[STDOUT_FILENO] = -1;
    h.fds[STDERR_FILENO] = e.their_messages;
    h.fds[GATE_FD_CONTROL] = e.their_sock;
    r = helper_start(&h, &g->pid, err);
    if (r < 0)
        return r;
    g->messages = TAKE_FD(e.messages);
    r = gate_link_open(&g->link, TAKE_FD(e.sock));
    return r < 0 ? err_sys(err, r, "talk to bawn-gate") : 0;
}

static void begin_gate(struct gatekeeper *g) {
    struct err err = {0};

    g->life.started_ms = clock_ms();
    g->life.gates++;
    memset(g->audited, 0, sizeof g->audited); /* its connections have numbers from 1 on */
    g->ready = g->broker_refused = false;
    g->life.retry_ms = 0;
    gate_rules_reload(&g->rules);
    if (start_gate(g, &err) < 0) {
        if (g->pid > 0)
            process_end(g->pid);
        g->pid = -1;
        closep(&g->messages);
        if (!g->life.reported)
            log_err(&err);
        g->life.reported = true;
        g->life.retry_ms = clock_ms() + DELAY_MOST_MS;
        gate_listeners_refuse(g);
        return;
    }
    gate_rules_watch(&g->rules);
    gate_send_config(g);
    open_control(g);
}

/* An agent asks its model as soon as it has started. What that needs is made ready meanwhile. */
void gatekeeper_begin(struct gatekeeper *g) {
    begin_gate(g);
    if (g->pid < 0 || !brokerkeeper_needed(g->brokers))
        return;
    if (gate_broker_answer(g) < 0)
        gate_lost(g, "it did not listen");
    for (uint32_t i = 0; i < GRANTS_MAX; i++)
        if (g->opts.credentials->soon & UINT64_C(1) << i)
            brokerkeeper_fetch(g->brokers, i);
}

/* In the loop ------------------------------------------------------------------------------------------------------ */

static_assert((int)CONTROL_POLL_MAX + (int)ASKER_POLL_MAX + (int)BROKERKEEPER_POLL_MAX + (int)LOGIN_POLL_MAX + 2 <=
                  GATE_POLL_MAX - GATE_LISTENERS_ALL,
              "room beside the listeners");

/* While a gate runs the listeners are its own. */
size_t gatekeeper_poll(struct gatekeeper *g, struct pollfd *out) {
    size_t n = 0;

    if (g->control)
        n = control_server_poll(g->control, out);
    n += login_poll(&g->login, out + n);
    if (g->opts.asker)
        n += asker_poll(g->opts.asker, out + n);
    if (g->pid < 0)
        return g->life.retry_ms && clock_ms() < g->life.retry_ms ? n : n + gate_listeners_poll(g, out + n);
    out[n++] = (struct pollfd){.fd = g->link.sock, .events = gate_link_events(&g->link)};
    if (g->rules.inotify >= 0)
        out[n++] = (struct pollfd){.fd = g->rules.inotify, .events = POLLIN};
    n += brokerkeeper_poll(g->brokers, out + n);
    return n;
}

int gatekeeper_timeout(const struct gatekeeper *g) {
    int t = clock_sooner(login_timeout(&g->login), brokerkeeper_timeout(g->brokers));

    t = clock_sooner(t, netlog_timeout(g->log));
    t = clock_sooner(t, gate_requests_timeout(g));
    if (g->opts.asker)
        t = clock_sooner(t, asker_timeout(g->opts.asker));
    if (g->pid < 0)
        return clock_sooner(t, clock_left_ms(g->life.retry_ms));
    t = clock_sooner(t, gate_rules_timeout(&g->rules));
    if (g->broker_wanted)
        t = clock_sooner(t, brokerkeeper_pause(g->brokers));
    return t;
}

/* Some of it may be left for the next turn, so that a flood of events does not keep the loop from the others. */
static void receive_events(struct gatekeeper *g) {
    struct gate_msg m;
    int r = gate_link_flush(&g->link);

    for (int i = 0; r >= 0 && i < MESSAGES_PER_TURN && g->pid >= 0; i++) {
        r = gate_link_recv(&g->link, &m);
        if (r == 0)
            return;
        r = r < 0 ? r : gate_event_take(g, &m);
    }
    if (r < 0)
        gate_lost(g, r == -EPIPE || r == -ECONNRESET ? NULL
                     : r == -EBADMSG                 ? "it did not keep to the protocol"
                     : r == -EPROTO                  ? "it has no rules"
                                                     : "it did not listen");
}

void gatekeeper_handle(struct gatekeeper *g, const struct pollfd *fds, size_t n) {
    if (g->life.retry_ms && clock_ms() >= g->life.retry_ms)
        g->life.retry_ms = 0;
    if (g->pid < 0 && gate_listeners_ready(g, fds, n))
        begin_gate(g);
    else if (g->pid >= 0)
        receive_events(g);
    brokerkeeper_handle(g->brokers);
    if (g->pid >= 0 && g->broker_wanted && gate_broker_answer(g) < 0)
        gate_lost(g, "it did not listen");
    gate_login_handle(g);
    if (g->pid >= 0 && gate_rules_handle(&g->rules))
        gate_send_config(g);
    if (g->control)
        control_server_handle(g->control);
    if (g->opts.asker)
        asker_handle(g->opts.asker);
    gate_requests_handle(g);
    netlog_flush(g->log);
}

/* bawn-init may have been taken over, and hand out anything. */
static bool is_connection(const struct gatekeeper *g, int fd) {
    int domain = 0, type = 0;
    socklen_t len = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
        return false;
    return (g->opts.bytes ? domain == AF_UNIX : domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM;
}

void gatekeeper_inside(struct gatekeeper *g, uint32_t id, int error, int fd) {
    CLEANUP(closep) int owned = fd;
    int r = 0;

    if (owned >= 0 && !is_connection(g, owned))
        closep(&owned);
    if (id == (uint32_t)LOGIN_INSIDE_ID) {
        login_inside(&g->login, TAKE_FD(owned));
        return;
    }
    if (owned < 0 && error <= 0)
        error = EPROTO;
    g->inside.asked -= g->inside.asked > 0;
    if (g->inside.stale)
        g->inside.stale--;
    else if (g->pid >= 0)
        r = gate_link_send(&g->link, GATE_MSG_INSIDE, id, error, TAKE_FD(owned));
    if (g->pid >= 0 && (r < 0 || gate_inside_next(g) < 0))
        gate_lost(g, "it did not listen");
}

/* An answer that is more than "this time" becomes a rule before the gate gets it, so that the next connection finds it. */
static void answered(void *arg, const struct gate_msg *question, const uint32_t *ids, size_t n, enum gate_answer answer) {
    struct gatekeeper *g = arg;

    if (question->type == GATE_MSG_OPEN) { /* a login, each time */
        gate_answer_log(g, question, answer == GATE_DENY ? GATE_DENY : GATE_ALLOW_ONCE);
        gate_login_answered(g, question, answer);
        return;
    }
    if (question->type == GATE_MSG_REQUEST) {
        gate_request_answered(g, question, ids, n, answer);
        return;
    }
    if (answer == GATE_ALLOW_SESSION || answer == GATE_ALLOW_ALWAYS)
        gate_answer_rule(g, question, answer);
    gate_answer_log(g, question, answer);
    for (size_t i = 0; i < n && g->pid >= 0; i++)
        if (gate_link_send(&g->link, GATE_MSG_ANSWER, ids[i], (int32_t)answer, -1) < 0)
            gate_lost(g, "it did not listen");
}

/* The end ---------------------------------------------------------------------------------------------------------- */

/* Everything inside is dead, so its connections end; their last events are worth a moment. */
static void last_events(struct gatekeeper *g) {
    uint64_t until = clock_ms() + FINISH_MS;
    int left;

    if (gate_link_send(&g->link, GATE_MSG_STOP, 0, 0, -1) < 0)
        gate_lost(g, NULL);
    while (g->pid >= 0 && (left = clock_left_ms(until)) > 0) {
        struct pollfd p = {.fd = g->link.sock, .events = gate_link_events(&g->link)};

        if (poll(&p, 1, left) < 0 && errno != EINTR)
            break;
        receive_events(g);
        netlog_flush(g->log);
    }
}

void gatekeeper_finish(struct gatekeeper *g) {
    g->finishing = true;
    login_end(&g->login);
    if (g->opts.asker)
        asker_forget(g->opts.asker, true);
    if (g->pid >= 0)
        last_events(g);
    gate_lost(g, NULL);
    control_server_free(TAKE_PTR(g->control));
    netlog_finish(g->log);
}

void gatekeeper_report(const struct gatekeeper *g) {
    netcount_report(&g->count);
}

void gatekeeper_json(const struct gatekeeper *g, struct buf *out) {
    buf_adds(out, "\"network\":");
    netcount_json(&g->count, out);
}
