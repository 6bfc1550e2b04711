/* SPDX-License-Identifier: Apache-2.0 */
/* Connects a judged flow to its server: first bytes, dial, then relay or inspection. */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/flow/flow_priv.h"
#include "gateway/flow/sniff.h"
#include "gateway/flow/why.h"
#include "os/clock.h"
#include "os/fd.h"

enum { PORT_HTTP = 80, PORT_TLS = 443 };

/* The first bytes of a relayed flow showed that it has to be inspected. */
#define NOW_INSPECT (-EXDEV)

/* One name for lookup, connection and TLS (ATTACKS 52). A connection by address has no name that could be shown. */
static int check_name(struct flow *f, const struct tls_hello *hello) {
    struct host sni;
    struct err err = {0};

    if (!hello->has_sni)
        return 0;
    if (host_parse(hello->sni, hello->sni_len, &sni, &err) < 0)
        return flow_deny_code(f, POLICY_NAME_MISMATCH, err.msg);
    if (!host_eq(&sni, &f->host))
        return flow_deny_code(f, POLICY_NAME_MISMATCH, "the TLS server name is that of another host");
    return 0;
}

static int check_tls(struct flow *f, const uint8_t *data, size_t len) {
    struct tls_hello hello;

    switch (tls_hello_parse(data, len, &hello)) {
    case TLS_HELLO_OK:
        f->is_tls = true;
        f->first.has_ech = hello.has_ech;
        tls_retry_init(&f->first.retry, hello.len);
        return check_name(f, &hello);
    case TLS_HELLO_MORE:
        return -EAGAIN;
    case TLS_HELLO_NOT_TLS:
        break;
    }
    return flow_deny_code(f, POLICY_NOT_TLS, NULL); /* starts like TLS, and is not: who would read that otherwise? */
}

/* Of a TLS connection that is passed on: the second ClientHello, if there is one, must name the same host. As relay_opts.tap. */
static int check_second(void *arg, bool from_client, const uint8_t *data, size_t len) {
    struct flow *f = arg;
    struct tls_hello hello;

    if (!f->is_tls) /* not TLS; or not known yet, because the server speaks first */
        return from_client;
    switch (from_client ? tls_retry_client(&f->first.retry, data, len, &hello) : tls_retry_server(&f->first.retry, data, len)) {
    case TLS_RETRY_MORE:
        return 0;
    case TLS_RETRY_OVER:
        tls_retry_done(&f->first.retry);
        return 1;
    case TLS_RETRY_HELLO:
        tls_retry_done(&f->first.retry);
        if (hello.has_ech && !f->first.has_ech)
            return flow_deny_code(f, POLICY_NAME_MISMATCH, "only the second ClientHello has an encrypted name");
        return check_name(f, &hello) < 0 ? -EACCES : 1;
    case TLS_RETRY_BAD:
        break;
    }
    return flow_deny_code(f, POLICY_NOT_TLS, "the second ClientHello cannot be read");
}

/* 0, -EAGAIN, or -EACCES with f->ruling.denied. */
static int check_first(struct flow *f, const uint8_t *data, size_t len) {
    bool must_be_http = f->ruling.inspect || (f->ruling.wants_first && f->port == PORT_HTTP);

    switch (sniff_first(data, len)) {
    case SNIFF_TLS:
        return check_tls(f, data, len);
    case SNIFF_MORE:
        if (f->port == PORT_TLS && len)
            return flow_deny_code(f, POLICY_NOT_TLS, NULL);
        return must_be_http || !len ? -EAGAIN : 0;
    case SNIFF_HTTP:
        return f->port == PORT_TLS ? flow_deny_code(f, POLICY_NOT_TLS, NULL) : 0;
    case SNIFF_OTHER:
        break;
    }
    if (f->port == PORT_TLS)
        return flow_deny_code(f, POLICY_NOT_TLS, NULL);
    return must_be_http ? flow_deny_code(f, POLICY_NOT_HTTP, NULL) : 0;
}

void flow_end_event(struct flow *f, uint64_t sent, uint64_t received) {
    char address[ADDR_TEXT_SIZE];
    struct gate_msg m;

    if (!f->host.len) /* --publish: it was not judged */
        return;
    gate_event_fill(&m, GATE_EVENT_END, f->id, f->host.text, f->port, NULL);
    m.action = RULE_ALLOW;
    m.sent = sent;
    m.received = received;
    m.micros = clock_us() - f->started_us;
    snprintf(m.address, sizeof m.address, "%s", flow_address_text(f, address));
    gate_send(f->gate, &m);
}

static void flow_inspect(struct flow *f);

static void count_sent(void *arg, size_t n) {
    const struct flow *f = arg;

    gate_sent(f->gate, n);
}

static void relay_over(void *arg, enum relay_end how, uint64_t sent, uint64_t received) {
    struct flow *f = arg;

    if (how == RELAY_REFUSED && f->ruling.inspect && !f->ruling.denied) {
        relay_free(TAKE_PTR(f->relay));
        flow_inspect(f);
        return;
    }
    flow_end_event(f, sent, received);
    switch (how) {
    case RELAY_DONE:
        flow_free(f);
        return;
    case RELAY_REFUSED:
        f->ruling.reported = false; /* another verdict than the first one */
        if (received == 0) {
            relay_free(TAKE_PTR(f->relay));
            closep(&f->server);
            flow_refuse_denied(f);
            return;
        }
        if (f->ruling.denied)
            gate_event(f->gate, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, f->ruling.denied);
        break;
    case RELAY_RESET:
    case RELAY_IDLE:
        break;
    }
    flow_abort(f);
}

/* Other protocols, and those where the server has the first word, are relayed: nothing can be covered there (SECURITY.md). */
static int check_for_http(struct flow *f, const uint8_t *data, size_t len) {
    enum sniff kind = sniff_first(data, len);
    uint64_t sent, received;

    relay_bytes(f->relay, &sent, &received);
    if (!f->ruling.covers || received || kind == SNIFF_OTHER)
        return 0;
    if (kind == SNIFF_MORE)
        return len == f->first.peeked ? 0 : -EAGAIN;
    f->ruling.inspect = f->first.done = true;
    return NOW_INSPECT;
}

/* TLS on a port where it was not expected: the name must be right there, too. */
static int relay_check(void *arg) {
    struct flow *f = arg;
    PEEK_BUFFER data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);
    int r;

    if (n <= 0)
        return n == -EAGAIN ? -EAGAIN : 0; /* the relay deals with its end, or its failure */
    r = check_first(f, data, (size_t)n);
    if (r == -EAGAIN && (size_t)n == f->first.peeked)
        return flow_deny_code(f, POLICY_NOT_TLS, NULL); /* no more will come */
    r = r == 0 ? check_for_http(f, data, (size_t)n) : r;
    f->first.peeked = (size_t)n;
    if (r == -EAGAIN)
        flow_need_more(f, (size_t)n);
    else
        flow_need_any(f);
    return r;
}

static void flow_relay(struct flow *f) {
    const struct relay_opts opts = {
        .client = f->client,
        .server = f->server,
        .arg = f,
        .check = f->first.done ? NULL : relay_check,
        .tap = f->first.done && !f->is_tls ? NULL : check_second,
        .sent = f->gate->meter ? count_sent : NULL,
        .end = relay_over,
    };

    flow_report_allowed(f);
    f->state = FLOW_RELAY;
    if (relay_new(f->gate, &opts, &f->relay) < 0)
        flow_abort(f);
    else
        relay_begin(f->relay);
}

static const char *const troubles[] = {
    [INSPECT_DONE] = NULL,
    [INSPECT_CLIENT_GONE] = NULL,
    [INSPECT_SERVER_GONE] = NULL,
    [INSPECT_NOT_TRUSTED] = "the server's certificate is not trusted",
    [INSPECT_NO_LEAF] = NULL, /* a refusal of ours */
    [INSPECT_HANDSHAKE] = "a TLS handshake failed",
    [INSPECT_PROTOCOL] = "invalid HTTP",
    [INSPECT_TIMEOUT] = NULL, /* but for the server's handshake */
};
static_assert(ARRAY_LEN(troubles) == INSPECT_TIMEOUT + 1, "each way to end has its entry");

static void refused_to_look(struct flow *f) {
    struct policy_verdict v;

    policy_refuse(POLICY_CANNOT_LOOK, f->host.text, NULL, &v);
    gate_event(f->gate, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, &v);
}

static enum policy_code code_of_trouble(enum inspect_end how, const char *why) {
    if (how == INSPECT_NOT_TRUSTED)
        return POLICY_NOT_TRUSTED;
    return how == INSPECT_TIMEOUT || (how == INSPECT_HANDSHAKE && !str_starts(why, "client: ")) ? POLICY_UNREACHABLE
                                                                                                : POLICY_ALLOWED;
}

static void inspect_over(void *arg, enum inspect_end how, uint64_t sent, uint64_t received) {
    struct flow *f = arg;
    const char *why = inspect_why(f->inspect), *what = troubles[how];
    char text[400];

    if (how == INSPECT_TIMEOUT && *why)
        what = "no answer";
    if (what) {
        snprintf(text, sizeof text, "%s%s%s", what, *why ? ": " : "", why);
        gate_trouble(f->gate, f->id, f->host.text, f->port, code_of_trouble(how, why), text);
    }
    if (how == INSPECT_NO_LEAF)
        refused_to_look(f);
    flow_http_done(f);
    flow_end_event(f, sent, received);
    flow_free(f);
}

static void flow_inspect(struct flow *f) {
    struct inspect_opts opts;
    struct err err = {0};

    f->ruling.guarded = f->gate->config.n_grants > 0;
    opts = (struct inspect_opts){
        .http = {.host = &f->host,
                 .port = f->port,
                 .tls = f->is_tls,
                 .proxied = f->entry.kind == ENTRY_URI,
                 .hooks = flow_http_hooks(f)},
        .arg = f,
        .sent = count_sent,
        .end = inspect_over,
    };
    f->state = FLOW_INSPECT;
    opts.client = TAKE_FD(f->client);
    opts.server = TAKE_FD(f->server);
    if (inspect_new(f->gate, &opts, &f->inspect, &err) < 0) {
        gate_trouble(f->gate, f->id, f->host.text, f->port, POLICY_ALLOWED, err.msg);
        flow_free(f);
    }
}

static void flow_join(struct flow *f) {
    bool plain = f->entry.kind == ENTRY_URI || (f->first.done && !f->is_tls && (f->ruling.inspect || f->port == PORT_HTTP));

    if (!flow_judge_anew(f))
        return;
    flow_unwatch(f);
    if (f->ruling.inspect && !f->first.done && f->entry.kind != ENTRY_URI)
        flow_first(f); /* a rule that has to look came while it was dialled */
    else if (plain || (f->is_tls && f->ruling.inspect))
        flow_inspect(f);
    else
        flow_relay(f);
}

static void dial_failed(struct flow *f, const char *text) {
    gate_trouble(f->gate, f->id, f->host.text, f->port, POLICY_UNREACHABLE, text);
    flow_deny_code(f, POLICY_UNREACHABLE, text);
    if (f->ruling.denied)
        why_note(f->gate->why, gate_now_s(f->gate), f->host.text, f->port, f->ruling.denied);
    f->ruling.reported = true;
    flow_refuse_denied(f);
}

static void flow_dialled(void *arg, const struct dial_result *res) {
    struct flow *f = arg;

    f->dial = NULL;
    switch (res->how) {
    case DIAL_OK:
        f->server = res->fd;
        f->address = res->addr;
        if (f->entry.kind != ENTRY_NONE && entry_welcome(f) < 0)
            flow_abort(f);
        else if (f->ruling.wants_first && !f->first.done)
            flow_first(f);
        else
            flow_join(f);
        return;
    case DIAL_DENIED:
        flow_refuse(f, &res->verdict);
        return;
    case DIAL_ASK:
        flow_ask(f, &res->verdict);
        return;
    case DIAL_NO_ADDRESS:
        flow_refuse_code(f, POLICY_NO_ADDRESS, res->text);
        return;
    case DIAL_FAILED:
        dial_failed(f, res->text);
        return;
    }
}

void flow_dial(struct flow *f) {
    const struct dial_opts opts = {
        .host = &f->host,
        .port = f->port,
        .is_tls = f->is_tls,
        .plain_http = f->entry.kind == ENTRY_URI || f->port == PORT_HTTP,
        .approved = f->ruling.approved,
        .address_too = f->ruling.address_too,
    };

    if (!flow_judge_anew(f)) /* before a name server or a proxy hears its name */
        return;
    flow_unwatch(f);
    f->state = FLOW_DIAL;
    if (dial_start(f->gate, &opts, flow_dialled, f, &f->dial) < 0)
        flow_abort(f);
}

static void first_ready(void *arg, uint32_t events) {
    struct flow *f = arg;
    PEEK_BUFFER data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);
    int r;

    if (n == -EAGAIN && !(events & (EPOLLHUP | EPOLLERR)))
        return;
    if (n <= 0) { /* it went away without a word */
        flow_free(f);
        return;
    }
    r = check_first(f, data, (size_t)n);
    if (r == -EAGAIN && !(events & EPOLLRDHUP)) {
        flow_need_more(f, (size_t)n);
        return;
    }
    flow_need_any(f);
    if (r == -EAGAIN) {
        flow_abort(f);
    } else if (r < 0) {
        flow_refuse_denied(f);
    } else {
        f->first.done = true;
        if (f->server < 0)
            flow_dial(f);
        else
            flow_join(f);
    }
}

void flow_first(struct flow *f) {
    flow_wait(f, FLOW_FIRST, EPOLLIN | EPOLLRDHUP, first_ready, FLOW_FIRST_MS);
}
