/* SPDX-License-Identifier: Apache-2.0 */
/* Answers a denied client in its own protocol. */
#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "gateway/flow/flow_priv.h"
#include "gateway/flow/pacer.h"
#include "gateway/flow/refuse_wire.h"
#include "gateway/flow/sniff.h"
#include "gateway/http/refuse.h"

static int flow_deny(struct flow *f, const struct policy_verdict *v) {
    if (!f->ruling.denied)
        f->ruling.denied = malloc(sizeof *f->ruling.denied);
    if (f->ruling.denied)
        *f->ruling.denied = *v;
    return -EACCES;
}

int flow_deny_code(struct flow *f, enum policy_code code, const char *why) {
    struct policy_verdict v;

    policy_refuse(code, f->host.text, why, &v);
    return flow_deny(f, &v);
}

/* Nothing new is read for it; when the client has heard us and closes, or after a while, it is over. */
static void linger_ready(void *arg, uint32_t events) {
    struct flow *f = arg;
    uint8_t dropped[16 * 1024];
    ssize_t n = 0;

    if (events & (EPOLLERR | EPOLLHUP)) {
        flow_free(f);
        return;
    }
    if (f->out.len) {
        n = send(f->client, f->out.data + f->out.at, f->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) {
            flow_free(f);
            return;
        }
        f->out.at += (size_t)MAX_OF(n, 0);
        f->out.len -= (size_t)MAX_OF(n, 0);
        if (!f->out.len) {
            shutdown(f->client, SHUT_WR);
            watch_set(f->gate->hub, &f->watch, EPOLLIN);
        }
    }
    if ((events & EPOLLIN) && (n = recv(f->client, dropped, sizeof dropped, MSG_DONTWAIT)) <= 0 && (n == 0 || errno != EAGAIN))
        flow_free(f);
}

void flow_last_word(struct flow *f, const void *data, size_t len) {
    f->out.data = malloc(len);
    if (!f->out.data) {
        flow_abort(f);
        return;
    }
    memcpy(f->out.data, data, len);
    f->out.len = len;
    flow_need_any(f);
    flow_wait(f, FLOW_LINGER, EPOLLIN | EPOLLOUT, linger_ready, FLOW_LINGER_MS);
}

static void refuse_http(struct flow *f, const uint8_t *data, size_t len) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(FLOW_ANSWER_MAX);

    refuse_http1(f->ruling.denied, f->host.text, f->port, sniff_wants_json(data, len), &b);
    flow_last_word(f, buf_str(&b), b.len);
}

/* TLS: the client gets a certificate of the sandbox's own authority, and 403 to what it asks for ------------------- */

/* One that is not HTTP/1 may ask more on the same connection: not for ever. */
static enum httpx_answer denied_judge(void *arg, struct httpx_request *req UNUSED, struct policy_verdict *ret) {
    struct flow *f = arg;

    *ret = *f->ruling.denied;
    if (++f->ruling.refused == FLOW_DENIED_REQUESTS)
        deadline_set(&f->gate->loop, &f->deadline, FLOW_SILENT_MS, flow_late, f);
    return HTTPX_DENY;
}

static void denied_over(void *arg, enum inspect_end how UNUSED, uint64_t sent UNUSED, uint64_t received UNUSED) {
    flow_free(arg);
}

/* A client that speaks after the server, inside TLS, would wait for nothing; and so would one that wants another name. Where no
 * one may look inside, or can, there are no words either. */
static bool can_answer_tls(const struct flow *f, const struct tls_hello *hello) {
    static const uint16_t server_first[] = {465, 563, 989, 990, 992, 993, 994, 995};
    struct host sni;

    for (size_t i = 0; i < ARRAY_LEN(server_first); i++)
        if (server_first[i] == f->port)
            return false;
    if (f->ruling.denied->code == POLICY_NAME_MISMATCH || f->ruling.denied->code == POLICY_CANNOT_LOOK)
        return false;
    return !hello->has_sni || (host_parse(hello->sni, hello->sni_len, &sni, NULL) == 0 && host_eq(&sni, &f->host));
}

static void refuse_tls_alert(struct flow *f) {
    uint8_t alert[TLS_ALERT_LEN];

    tls_alert_write(f->ruling.denied->code == POLICY_NAME_MISMATCH ? TLS_ALERT_UNRECOGNIZED_NAME : TLS_ALERT_ACCESS_DENIED,
                    alert);
    flow_last_word(f, alert, sizeof alert);
}

static void refuse_inside_tls(struct flow *f) {
    struct inspect_opts opts = {
        .http = {.host = &f->host, .port = f->port, .tls = true, .once = true, .hooks = {.arg = f, .judge = denied_judge}},
        .server = -1,
        .arg = f,
        .end = denied_over,
    };

    flow_need_any(f);
    flow_unwatch(f);
    opts.client = TAKE_FD(f->client);
    if (inspect_new(f->gate, &opts, &f->inspect, NULL) < 0)
        flow_free(f);
}

static void refuse_tls(struct flow *f, const uint8_t *data, size_t len, bool all) {
    struct tls_hello hello;

    switch (tls_hello_parse(data, len, &hello)) {
    case TLS_HELLO_OK:
        if (can_answer_tls(f, &hello))
            refuse_inside_tls(f);
        else
            refuse_tls_alert(f);
        return;
    case TLS_HELLO_MORE:
        if (!all) {
            flow_need_more(f, len);
            return;
        }
        break;
    case TLS_HELLO_NOT_TLS:
        break;
    }
    refuse_tls_alert(f);
}

/* Other protocols ---------------------------------------------------------------------------------------------------- */

static void refuse_wire(struct flow *f, enum wire wire) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(FLOW_ANSWER_MAX);
    char line[REFUSE_LINE_SIZE];

    refuse_line(f->ruling.denied, f->host.text, f->port, line);
    wire_refuse(wire, line, &b);
    flow_last_word(f, buf_str(&b), b.len);
}

/* "No", and the client says what it wants without encryption, or goes. */
static void refuse_encryption(struct flow *f) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(FLOW_ANSWER_MAX);
    uint8_t question[WIRE_PG_ENCRYPT_LEN];

    wire_refuse(WIRE_PG_ENCRYPT, "", &b);
    if (f->first.asked++ == FLOW_ENCRYPT_MAX || recv(f->client, question, sizeof question, MSG_DONTWAIT) != sizeof question ||
        send(f->client, buf_str(&b), b.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)b.len)
        flow_abort(f);
    else
        flow_need_any(f);
}

static void refuse_other(struct flow *f, const uint8_t *data, size_t len, bool all) {
    enum wire wire = wire_of_bytes(data, len);

    if (wire == WIRE_PG_ENCRYPT)
        refuse_encryption(f);
    else if (wire == WIRE_MORE && !all)
        flow_need_more(f, len);
    else if (wire == WIRE_MORE || wire == WIRE_NONE)
        flow_abort(f);
    else
        refuse_wire(f, wire);
}

/* ------------------------------------------------------------------------------------------------------------------- */

static bool is_failure(const struct flow *f) {
    return f->ruling.denied->code == POLICY_NO_ADDRESS || f->ruling.denied->code == POLICY_UNREACHABLE;
}

/* all: no more will come. */
static void refuse_first(struct flow *f, const uint8_t *data, size_t len, bool all) {
    switch (sniff_first(data, len)) {
    case SNIFF_HTTP:
        refuse_http(f, data, len);
        return;
    case SNIFF_TLS:
        if (is_failure(f))
            flow_abort(f); /* not denied: as if the server were not there */
        else
            refuse_tls(f, data, len, all);
        return;
    case SNIFF_MORE:
        if (!all) {
            flow_need_more(f, len);
            return;
        }
        break;
    case SNIFF_OTHER:
        if (is_failure(f))
            break;
        refuse_other(f, data, len, all);
        return;
    }
    flow_abort(f);
}

static void refuse_ready(void *arg, uint32_t events) {
    struct flow *f = arg;
    uint8_t data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);

    if (n == -EAGAIN && !(events & (EPOLLERR | EPOLLHUP)))
        return;
    if (n <= 0 || (events & (EPOLLERR | EPOLLHUP)))
        flow_abort(f);
    else
        refuse_first(f, data, (size_t)n, events & EPOLLRDHUP);
}

static void refuse_now(void *arg) {
    struct flow *f = arg;
    enum wire wire = wire_of_port(f->port);

    if (TAKE(f->ruling.slow, false))
        pacer_over(f->gate->pacer);
    if (f->entry.kind != ENTRY_NONE && !f->entry.welcomed)
        entry_refuse(f, f->ruling.denied);
    else if (wire != WIRE_NONE && !is_failure(f))
        refuse_wire(f, wire);
    else if (sniff_server_first(f->port))
        flow_abort(f);
    else
        flow_wait(f, FLOW_REFUSE, EPOLLIN | EPOLLRDHUP, refuse_ready,
                  sniff_client_first(f->port) ? FLOW_SLOW_MS : FLOW_SILENT_MS);
}

/* One that goes away while it waits; its bytes stay where they are. */
static void slow_client(void *arg, uint32_t events) {
    if (events & (EPOLLERR | EPOLLHUP))
        flow_free(arg);
}

void flow_refuse_denied(struct flow *f) {
    uint64_t ms;

    if (!f->ruling.denied) { /* no memory for the reason */
        flow_abort(f);
        return;
    }
    if (!f->ruling.reported) {
        f->ruling.reported = true;
        gate_event(f->gate, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, f->ruling.denied);
    }
    ms = pacer_wait(f->gate->pacer, uv_now(&f->gate->loop), f->host.text, f->port);
    if (!ms) {
        refuse_now(f);
        return;
    }
    f->ruling.slow = true;
    flow_pause(f, slow_client, ms, refuse_now);
}

void flow_refuse(struct flow *f, const struct policy_verdict *v) {
    flow_deny(f, v);
    flow_refuse_denied(f);
}

void flow_refuse_code(struct flow *f, enum policy_code code, const char *why) {
    flow_deny_code(f, code, why);
    flow_refuse_denied(f);
}
