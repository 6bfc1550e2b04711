/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "gateway/flow/flow_priv.h"
#include "gateway/flow/sniff.h"

enum { PORT_HTTP = 80, PORT_TLS = 443 };

/* One name for lookup, connection and TLS (ATTACKS 52). A connection by address has no name that could be shown. */
static int check_name(struct flow *f, const struct tls_hello *hello) {
    struct host sni;
    struct err err = {0};

    if (!hello->has_sni)
        return 0;
    if (host_parse(hello->sni, hello->sni_len, &sni, &err) < 0)
        return flow_deny_code(f, POLICY_NAME_MISMATCH, err.msg);
    if (!host_eq(&sni, &f->host))
        return flow_deny_code(f, POLICY_NAME_MISMATCH, "the TLS server name is another one");
    return 0;
}

static int check_tls(struct flow *f, const uint8_t *data, size_t len) {
    struct tls_hello hello;

    switch (tls_hello_parse(data, len, &hello)) {
    case TLS_HELLO_OK:
        f->is_tls = true;
        f->has_ech = hello.has_ech;
        tls_retry_init(&f->retry, hello.len);
        return check_name(f, &hello);
    case TLS_HELLO_MORE:
        return -EAGAIN;
    case TLS_HELLO_NOT_TLS:
        break;
    }
    return flow_deny_code(f, POLICY_NOT_TLS, NULL); /* starts like TLS, and is not: who would read that otherwise? */
}

int flow_check_second(void *arg, bool from_client, const uint8_t *data, size_t len) {
    struct flow *f = arg;
    struct tls_hello hello;

    if (!f->is_tls) /* not TLS; or not known yet, because the server speaks first */
        return from_client;
    switch (from_client ? tls_retry_client(&f->retry, data, len, &hello) : tls_retry_server(&f->retry, data, len)) {
    case TLS_RETRY_MORE:
        return 0;
    case TLS_RETRY_OVER:
        tls_retry_done(&f->retry);
        return 1;
    case TLS_RETRY_HELLO:
        tls_retry_done(&f->retry);
        if (hello.has_ech && !f->has_ech)
            return flow_deny_code(f, POLICY_NAME_MISMATCH, "only the second TLS hello has an encrypted name");
        return check_name(f, &hello) < 0 ? -EACCES : 1;
    case TLS_RETRY_BAD:
        break;
    }
    return flow_deny_code(f, POLICY_NOT_TLS, "a second TLS hello that cannot be read");
}

int flow_check_first(struct flow *f, const uint8_t *data, size_t len) {
    bool must_be_http = f->look || (f->wants_first && f->port == PORT_HTTP);

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

static void first_ready(void *arg, uint32_t events) {
    struct flow *f = arg;
    uint8_t data[FLOW_PEEK_MAX];
    long n = flow_peek(f, data);
    int r;

    if (n == -EAGAIN && !(events & (EPOLLHUP | EPOLLERR)))
        return;
    if (n <= 0) { /* it went away without a word */
        flow_free(f);
        return;
    }
    r = flow_check_first(f, data, (size_t)n);
    if (r == -EAGAIN && !(events & EPOLLRDHUP)) {
        flow_need_more(f, (size_t)n);
        return;
    }
    flow_need_any(f);
    if (r == -EAGAIN) {
        flow_abort(f);
    } else if (r < 0) {
        flow_refuse_kept(f);
    } else {
        f->has_first = true;
        if (f->server < 0)
            flow_dial(f);
        else
            flow_join(f);
    }
}

void flow_first(struct flow *f) {
    if (flow_watch(f, FLOW_FIRST, EPOLLIN | EPOLLRDHUP, first_ready, FLOW_FIRST_MS) < 0)
        flow_abort(f);
}
