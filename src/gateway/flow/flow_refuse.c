/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "gateway/flow/flow_priv.h"
#include "gateway/flow/sniff.h"
#include "gateway/http/refuse.h"

int flow_deny(struct flow *f, const struct policy_verdict *v) {
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

    refuse_http1(f->ruling.denied, f->host.text, f->port, !sniff_wants_text(data, len), false, &b);
    flow_last_word(f, buf_str(&b), b.len);
}

static void refuse_tls(struct flow *f) {
    uint8_t alert[TLS_ALERT_LEN];

    tls_alert_write(f->ruling.denied->code == POLICY_NAME_MISMATCH ? TLS_ALERT_UNRECOGNIZED_NAME : TLS_ALERT_ACCESS_DENIED,
                    alert);
    flow_last_word(f, alert, sizeof alert);
}

static void refuse_ready(void *arg, uint32_t events) {
    struct flow *f = arg;
    uint8_t data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);

    if (n == -EAGAIN && !(events & (EPOLLERR | EPOLLHUP)))
        return;
    if (n <= 0 || (events & (EPOLLERR | EPOLLHUP))) {
        flow_abort(f);
        return;
    }
    switch (sniff_first(data, (size_t)n)) {
    case SNIFF_HTTP:
        refuse_http(f, data, (size_t)n);
        return;
    case SNIFF_TLS:
        if (f->ruling.denied->code == POLICY_NO_ADDRESS || f->ruling.denied->code == POLICY_UNREACHABLE)
            flow_abort(f); /* nobody forbade it: as if the server were not there */
        else
            refuse_tls(f);
        return;
    case SNIFF_MORE:
        if (!(events & EPOLLRDHUP)) {
            flow_need_more(f, (size_t)n);
            return;
        }
        break;
    case SNIFF_OTHER:
        break;
    }
    flow_abort(f);
}

void flow_refuse_denied(struct flow *f) {
    if (!f->ruling.denied) { /* no memory for the reason */
        flow_abort(f);
        return;
    }
    if (!f->ruling.reported) {
        f->ruling.reported = true;
        gate_event(f->gate, GATE_EVENT_CONNECTION, f->id, f->host.text, f->port, f->ruling.denied);
    }
    if (f->entry.kind != ENTRY_NONE && !f->entry.welcomed)
        entry_refuse(f, f->ruling.denied);
    else if (sniff_server_first(f->port))
        flow_abort(f);
    else
        flow_wait(f, FLOW_REFUSE, EPOLLIN | EPOLLRDHUP, refuse_ready, FLOW_SILENT_MS);
}

void flow_refuse(struct flow *f, const struct policy_verdict *v) {
    flow_deny(f, v);
    flow_refuse_denied(f);
}

void flow_refuse_code(struct flow *f, enum policy_code code, const char *why) {
    flow_deny_code(f, code, why);
    flow_refuse_denied(f);
}
