/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The explicit way in, for clients that insist on a proxy: HTTP CONNECT, HTTP with absolute URIs, and SOCKS5, all on the
 * loopback port that HTTP_PROXY and the like name. It only says where to; everything else is as for any other flow. Requests
 * are peeked, and taken exactly: what follows them is the client's conversation.
 */
#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "gateway/flow/flow_priv.h"
#include "gateway/flow/sniff.h"
#include "gateway/flow/why.h"
#include "gateway/flow/wish.h"
#include "gateway/http/refuse.h"
#include "proto/proxyreq.h"
#include "proto/socks.h"

enum { SOCKS4 = 4, SOCKS5 = 5, PORT_HTTP = 80 };

static bool consume(struct flow *f, size_t len) {
    uint8_t dropped[4096];

    while (len) {
        ssize_t n = recv(f->client, dropped, MIN_OF(len, sizeof dropped), MSG_DONTWAIT);

        if (n <= 0)
            return false;
        len -= (size_t)n;
    }
    return true;
}

static int send_now(struct flow *f, const void *data, size_t len) {
    return send(f->client, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len ? 0 : -EPIPE;
}

/* A client that looked the name up itself says the address that our DNS gave it. */
static void entry_target(struct flow *f) {
    struct gate *g = f->gate;
    struct addr a = f->host.kind == HOST_NAME ? (struct addr){0} : addr_unmapped(&f->host.addr);
    bool ours = str_eq(f->host.text, "bawn.internal") || (a.len && names_is_gate(&a));

    flow_need_any(f);
    if (ours && f->entry.kind == ENTRY_URI && f->port == PORT_HTTP) {
        flow_why(f);
        return;
    }
    if (!a.len || !names_is_synthetic(&a)) {
        flow_judge(f);
        return;
    }
    if (ours || !names_find(g->names, &a, gate_now_s(g), &f->host)) {
        flow_refuse_code(f, POLICY_NOT_HANDED_OUT, NULL);
        return;
    }
    f->dest = a;
    f->holds_name = true;
    names_hold(g->names, &a);
    flow_judge(f);
}

static void entry_bad_name(struct flow *f, const struct err *err) {
    f->host = (struct host){0};
    flow_refuse_code(f, POLICY_NAME_INVALID, err->msg);
}

static void socks_ask(struct flow *f, const struct socks_request *req) {
    uint8_t reply[SOCKS_REPLY_MAX];
    struct err err = {0};

    f->entry.kind = ENTRY_SOCKS;
    f->port = req->port;
    if (!consume(f, req->len))
        flow_abort(f);
    else if (req->refuse != SOCKS_SUCCEEDED)
        flow_last_word(f, reply, socks_reply_write(req->refuse, reply));
    else if (host_parse(req->host, req->host_len, &f->host, &err) < 0)
        entry_bad_name(f, &err);
    else
        entry_target(f);
}

static void socks_greet(struct flow *f, const struct socks_greeting *greeting) {
    static const uint8_t fine[] = {SOCKS5, 0}, no[] = {SOCKS5, 0xff};

    if (!consume(f, greeting->len))
        flow_abort(f);
    else if (!greeting->no_auth)
        flow_last_word(f, no, sizeof no);
    else if (send_now(f, fine, sizeof fine) < 0)
        flow_abort(f);
    else
        f->entry.greeted = true;
}

static enum socks_result socks_data(struct flow *f, const uint8_t *data, size_t len) {
    struct socks_greeting greeting;
    struct socks_request req;
    enum socks_result r;

    if (f->entry.greeted) {
        r = socks_request_parse(data, len, &req);
        if (r == SOCKS_OK)
            socks_ask(f, &req);
        return r;
    }
    r = socks_greeting_parse(data, len, &greeting);
    if (r == SOCKS_OK) {
        flow_need_any(f);
        socks_greet(f, &greeting);
    }
    return r;
}

static void http_ask(struct flow *f, const struct proxyreq *req) {
    struct err err = {0};

    f->entry.kind = req->connect ? ENTRY_CONNECT : ENTRY_URI;
    if (req->connect && !consume(f, req->head_len)) {
        flow_abort(f);
        return;
    }
    if (host_parse_with_port(req->authority, strlen(req->authority), &f->host, &f->port, &err) < 0) {
        entry_bad_name(f, &err);
        return;
    }
    if (!f->port)
        flow_refuse_code(f, POLICY_DENIED_PORT, "the request names no port");
    else
        entry_target(f);
}

static enum proxyreq_result http_data(struct flow *f, const uint8_t *data, size_t len) {
    struct proxyreq req;
    enum proxyreq_result r = proxyreq_parse(data, len, &req);

    if (r == PROXYREQ_OK) {
        http_ask(f, &req);
    } else if (r == PROXYREQ_BAD) {
        f->entry.kind = ENTRY_URI;
        f->port = 0;
        flow_refuse_code(f, POLICY_NOT_HTTP, req.why);
    }
    return r;
}

static void entry_ready(void *arg, uint32_t events) {
    struct flow *f = arg;
    uint8_t data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);
    bool more;

    if (n == -EAGAIN && !(events & (EPOLLERR | EPOLLHUP)))
        return;
    if (n <= 0) {
        flow_free(f);
        return;
    }
    if (data[0] == SOCKS5 || f->entry.greeted) {
        enum socks_result r = socks_data(f, data, (size_t)n);

        if (r == SOCKS_BAD)
            flow_abort(f);
        more = r == SOCKS_MORE;
    } else if (data[0] == SOCKS4) {
        flow_abort(f);
        return;
    } else {
        more = http_data(f, data, (size_t)n) == PROXYREQ_MORE;
    }
    if (!more)
        return;
    if (events & EPOLLRDHUP || n == FLOW_PEEK_MAX)
        flow_abort(f);
    else
        flow_need_more(f, (size_t)n);
}

void entry_begin(struct flow *f) {
    flow_wait(f, FLOW_ENTRY, EPOLLIN | EPOLLRDHUP, entry_ready, FLOW_FIRST_MS);
}

int entry_welcome(struct flow *f) {
    static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    uint8_t reply[SOCKS_REPLY_MAX];

    f->entry.welcomed = f->entry.kind != ENTRY_URI;
    if (f->entry.kind == ENTRY_CONNECT)
        return send_now(f, established, sizeof established - 1);
    return f->entry.kind == ENTRY_SOCKS ? send_now(f, reply, socks_reply_write(SOCKS_SUCCEEDED, reply)) : 0;
}

void entry_refuse(struct flow *f, const struct policy_verdict *v) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(FLOW_ANSWER_MAX);
    uint8_t reply[SOCKS_REPLY_MAX], data[FLOW_PEEK_MAX];
    long n;

    if (f->entry.kind == ENTRY_SOCKS) {
        flow_last_word(f, reply,
                       socks_reply_write(v->code >= POLICY_NO_ADDRESS ? SOCKS_HOST_UNREACHABLE : SOCKS_NOT_ALLOWED, reply));
        return;
    }
    n = f->entry.kind == ENTRY_URI ? flow_peek(f, data) : 0;
    refuse_http1(v, f->host.text, f->port, sniff_wants_json(data, n > 0 ? (size_t)n : 0), &b);
    flow_last_word(f, buf_str(&b), b.len);
}

/* -- what the gate answers itself ------------------------------------------------------------------------------------------ */

static void wish_say(struct flow *f, int status, const char *how, const char *said) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(FLOW_ANSWER_MAX);

    wish_answer(status, how, said, &b);
    flow_last_word(f, buf_str(&b), b.len);
}

static void wish_answered(void *arg, enum gate_answer answer) {
    static const char *const how[GATE_ANSWERS] = {"deny", "once", "session", "always"};
    struct flow *f = arg;

    f->ask = NULL;
    wish_say(f, answer == GATE_DENY ? 403 : 200, how[answer], f->gate->asks.said);
}

/* A client that gives up takes its question with it. */
static void wish_waits(void *arg, uint32_t events) {
    struct flow *f = arg;
    char byte;

    if ((events & (EPOLLHUP | EPOLLERR)) || recv(f->client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        flow_free(f);
    else
        watch_set(f->gate->hub, &f->watch, 0);
}

static void wish_ask(struct flow *f, size_t len, const struct gate_msg *question) {
    if (!consume(f, len)) {
        flow_abort(f);
        return;
    }
    f->ask = gate_ask(f->gate, question, wish_answered, f);
    if (!f->ask)
        wish_say(f, 403, "deny", "too many questions wait for an answer");
    else
        flow_wait(f, FLOW_WHY, EPOLLRDHUP, wish_waits, 2 * (uint64_t)f->gate->config.ask_timeout_ms + FLOW_FIRST_MS);
}

/* True: it is a request for access, and was dealt with. */
static bool wish_ready(struct flow *f, const uint8_t *data, size_t n, uint32_t events) {
    const char *why = "it cannot be read";
    struct gate_msg question;

    switch (wish_read(data, n, &question, &why)) {
    case WISH_NOT:
        return false;
    case WISH_MORE:
        if (events & EPOLLRDHUP || n == FLOW_PEEK_MAX)
            flow_abort(f);
        else
            flow_need_more(f, n);
        return true;
    case WISH_BAD:
        wish_say(f, 400, "deny", why);
        return true;
    case WISH_OK:
        wish_ask(f, n, &question);
        return true;
    }
    BUG("a result of wish_read()");
}

static void why_ready(void *arg, uint32_t events) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(WHY_ANSWER_MAX);
    struct flow *f = arg;
    uint8_t data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);

    if (n == -EAGAIN && !(events & (EPOLLERR | EPOLLHUP)))
        return;
    if (n <= 0)
        flow_free(f);
    else if (wish_ready(f, data, (size_t)n, events))
        return;
    else if (why_answer(f->gate->why, gate_now_s(f->gate), data, (size_t)n, &b))
        flow_last_word(f, buf_str(&b), b.len);
    else if (events & EPOLLRDHUP)
        flow_abort(f);
    else
        flow_need_more(f, (size_t)n);
}

void flow_why(struct flow *f) {
    flow_wait(f, FLOW_WHY, EPOLLIN | EPOLLRDHUP, why_ready, FLOW_FIRST_MS);
}
