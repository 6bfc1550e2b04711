/* SPDX-License-Identifier: Apache-2.0 */
/* From a name to a connected socket. */
#include "gateway/net/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/buf.h"
#include "gateway/epoll_set.h"
#include "gateway/net/proxy.h"
#include "gateway/net/resolve.h"
#include "os/fd.h"

enum { ATTEMPTS_MAX = RESOLVE_ADDRS_MAX, REQUEST_MAX = 4096 };

struct dial_attempt {
    struct dial *dial;
    struct addr addr;
    int fd;
    struct watch watch;
};

struct dial {
    struct gate *gate;
    struct host host;
    uint16_t port;
    bool is_tls, approved, address_too, proxied;
    struct proxy proxy;
    dial_fn *fn;
    void *arg;
    struct resolve *resolve;
    struct addr found[ATTEMPTS_MAX]; /* while the network's NAT64 prefix is looked up */
    size_t n_found;
    struct dial_attempt attempts[ATTEMPTS_MAX];
    size_t n, next; /* [0, next) were started */
    int error;      /* of the last attempt */
    struct deadline stagger, deadline;
};

static void attempt_close(struct dial_attempt *a) {
    watch_stop(a->dial->gate->hub, &a->watch);
    closep(&a->fd);
}

void dial_cancel(struct dial *d) {
    if (!d)
        return;
    if (d->resolve)
        resolve_cancel(d->resolve);
    for (size_t i = 0; i < d->next; i++)
        attempt_close(&d->attempts[i]);
    deadline_done(&d->stagger);
    deadline_done(&d->deadline);
    explicit_bzero(&d->proxy, sizeof d->proxy);
    free(d);
}

static void dial_finish(struct dial *d, struct dial_result *res) {
    dial_fn *fn = d->fn;
    void *arg = d->arg;

    dial_cancel(d);
    fn(arg, res);
}

static void dial_fail(struct dial *d, enum dial_end how, const char *text, int error) {
    struct dial_result res = {.how = how, .fd = -1};

    snprintf(res.text, sizeof res.text, "%s%s%s", text, error ? ": " : "", error ? strerror(-error) : "");
    dial_finish(d, &res);
}

static void dial_connected(struct dial *d, struct dial_attempt *a) {
    struct dial_result res = {.how = DIAL_OK};

    watch_stop(d->gate->hub, &a->watch);
    res.fd = TAKE_FD(a->fd);
    if (!d->proxied)
        res.addr = a->addr;
    dial_finish(d, &res);
}

/* The proxy's answer is peeked and then taken exactly: bytes of the server may follow at once. */
static void proxy_ready(void *arg, uint32_t events) {
    struct dial_attempt *a = arg;
    uint8_t answer[PROXY_ANSWER_MAX];
    ssize_t n = recv(a->fd, answer, sizeof answer, MSG_PEEK | MSG_DONTWAIT);
    char text[80];
    int status, low;
    long head;

    if (n < 0 && errno == EAGAIN)
        return;
    head = n > 0 ? proxy_answer(answer, (size_t)n, &status) : -EPROTO;
    if (head == 0 && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
        low = (int)n + 1;
        setsockopt(a->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
        return;
    }
    if (head <= 0 || recv(a->fd, answer, (size_t)head, MSG_DONTWAIT) != head) {
        snprintf(text, sizeof text, "the host's proxy did not connect (status %d)", head == -EACCES ? status : 0);
        dial_fail(a->dial, DIAL_FAILED, text, 0);
        return;
    }
    low = 1;
    setsockopt(a->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    dial_connected(a->dial, a);
}

static void ask_proxy(struct dial *d, struct dial_attempt *a) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(REQUEST_MAX);
    ssize_t n;

    proxy_request(&d->proxy, &d->host, d->port, &b);
    n = buf_ok(&b) ? send(a->fd, buf_str(&b), b.len, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
    explicit_bzero(b.data, b.len);
    watch_stop(d->gate->hub, &a->watch);
    if (n != (ssize_t)b.len || watch_start(d->gate->hub, &a->watch, a->fd, EPOLLIN | EPOLLRDHUP, proxy_ready, a) < 0)
        dial_fail(d, DIAL_FAILED, "the host's proxy does not take the request", 0);
}

/* One is enough; the others are not needed any more. */
static void attempt_won(struct dial_attempt *a) {
    struct dial *d = a->dial;

    for (size_t i = 0; i < d->next; i++)
        if (&d->attempts[i] != a)
            attempt_close(&d->attempts[i]);
    deadline_stop(&d->stagger);
    d->next = d->n;
    if (d->proxied)
        ask_proxy(d, a);
    else
        dial_connected(d, a);
}

static void try_next(struct dial *d);

static void attempt_ready(void *arg, uint32_t events UNUSED) {
    struct dial_attempt *a = arg;
    struct dial *d = a->dial;
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error == 0) {
        attempt_won(a);
        return;
    }
    d->error = -error;
    attempt_close(a);
    try_next(d);
}

/* 0: connected; -EINPROGRESS */
static int attempt_start(struct dial_attempt *a) {
    struct sockaddr_storage to;
    socklen_t len = sockaddr_make(&a->addr, a->dial->proxied ? a->dial->proxy.port : a->dial->port, &to);
    int on = 1;

    a->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (a->fd < 0)
        return -errno;
    setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(a->fd, (struct sockaddr *)&to, len) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    /* On the same machine the handshake is over by now, and asking again is cheaper than a turn of the loop. */
    if (connect(a->fd, (struct sockaddr *)&to, len) == 0)
        return 0;
    if (errno != EALREADY)
        return -errno;
    return watch_start(a->dial->gate->hub, &a->watch, a->fd, EPOLLOUT, attempt_ready, a) < 0 ? -ENOMEM : -EINPROGRESS;
}

static bool is_any_open(const struct dial *d) {
    for (size_t i = 0; i < d->next; i++)
        if (d->attempts[i].fd >= 0)
            return true;
    return false;
}

static void stagger_over(void *arg) {
    try_next(arg);
}

static void try_next(struct dial *d) {
    while (d->next < d->n) {
        struct dial_attempt *a = &d->attempts[d->next++];
        int r = attempt_start(a);

        if (r == 0) {
            attempt_won(a);
            return;
        }
        if (r == -EINPROGRESS) {
            if (d->next < d->n)
                deadline_set(&d->gate->loop, &d->stagger, DIAL_STAGGER_MS, stagger_over, d);
            return;
        }
        d->error = r;
        attempt_close(a);
    }
    if (!is_any_open(d))
        dial_fail(d, DIAL_FAILED, d->proxied ? "connect to the host's proxy" : "connect", d->error);
}

static void add_attempt(struct dial *d, const struct addr *addr) {
    if (d->n < ATTEMPTS_MAX)
        d->attempts[d->n++] = (struct dial_attempt){.dial = d, .addr = *addr, .fd = -1, .watch = WATCH_INIT};
}

static void dial_judged(struct dial *d, struct policy_verdict *v) {
    struct dial_result res = {.how = v->action == RULE_ASK ? DIAL_ASK : DIAL_DENIED, .fd = -1, .verdict = *v};

    dial_finish(d, &res);
}

static bool is_approved(const struct dial *d, const struct policy_verdict *v) {
    return d->approved && (!v->asks_address || d->address_too);
}

static void judge_all(struct dial *d, const struct addr *addrs, size_t n) {
    struct policy_request req = {.host = &d->host, .port = d->port, .is_tls = d->is_tls};
    struct policy_verdict v, best = {.action = RULE_DENY};

    for (size_t i = 0; i < n; i++) {
        req.address = &addrs[i];
        gate_judge(d->gate, &req, &v);
        if (v.action == RULE_ALLOW || (v.action == RULE_ASK && (v.needs & NEEDS_HTTP || is_approved(d, &v))))
            add_attempt(d, &addrs[i]);
        else if (i == 0 || v.action > best.action)
            best = v;
    }
    if (!d->n)
        dial_judged(d, &best);
    else
        try_next(d);
}

/* Without an answer it is unknown where an IPv6 address leads. Only IPv4 is tried then. */
static void drop_ipv6(struct dial *d) {
    size_t left = 0;

    for (size_t i = 0; i < d->n_found; i++)
        if (d->found[i].len == 4)
            d->found[left++] = d->found[i];
    d->n_found = left;
}

static void nat64_resolved(void *arg, int status, const struct addr *addrs, size_t n) {
    struct dial *d = arg;

    d->resolve = NULL;
    if (n || status == -ENOENT || status == -ENODATA)
        nat64_learn(&d->gate->nat64, addrs, n, uv_now(&d->gate->loop));
    else if (status == -EIO)
        nat64_not_learned(&d->gate->nat64, uv_now(&d->gate->loop));
    else
        drop_ipv6(d);
    if (d->n_found)
        judge_all(d, d->found, d->n_found);
    else
        dial_fail(d, DIAL_NO_ADDRESS, "look up the NAT64 prefix of the network (ipv4only.arpa)", status);
}

static void find_nat64(struct dial *d, const struct addr *addrs, size_t n) {
    struct host name;

    nat64_name(&name);
    d->n_found = MIN_OF(n, (size_t)ATTEMPTS_MAX);
    memcpy(d->found, addrs, d->n_found * sizeof *addrs);
    d->resolve = resolve_start(d->gate->resolver, &name, nat64_resolved, d);
    if (!d->resolve)
        dial_fail(d, DIAL_FAILED, "look up", -EBUSY);
}

static void dial_resolved(void *arg, int status, const struct addr *addrs, size_t n) {
    struct dial *d = arg;

    d->resolve = NULL;
    if (n == 0) {
        dial_fail(d, d->proxied ? DIAL_FAILED : DIAL_NO_ADDRESS, d->proxied ? "look up the host's proxy" : "look up", status);
        return;
    }
    if (!d->proxied && nat64_is_needed(&d->gate->nat64, addrs, n, uv_now(&d->gate->loop))) {
        find_nat64(d, addrs, n);
        return;
    }
    if (!d->proxied) {
        judge_all(d, addrs, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        add_attempt(d, &addrs[i]);
    try_next(d);
}

static void dial_late(void *arg) {
    dial_fail(arg, DIAL_FAILED, "connect", -ETIMEDOUT);
}

static void dial_go(struct dial *d) {
    const struct host *target = d->proxied ? &d->proxy.host : &d->host;
    struct addr addrs[RESOLVE_ADDRS_MAX];
    size_t n;
    int status;

    if (resolve_known(d->gate->resolver, target, addrs, &n, &status)) {
        dial_resolved(d, status, addrs, n);
        return;
    }
    d->resolve = resolve_start(d->gate->resolver, target, dial_resolved, d);
    if (!d->resolve)
        dial_fail(d, DIAL_FAILED, "look up", -EBUSY);
}

int dial_start(struct gate *g, const struct dial_opts *opts, dial_fn *fn, void *arg, struct dial **ret) {
    struct dial *d = calloc(1, sizeof *d);
    struct err err = {0};
    int r;

    if (!d)
        return -ENOMEM;
    *d = (struct dial){.gate = g,
                       .host = *opts->host,
                       .port = opts->port,
                       .is_tls = opts->is_tls,
                       .approved = opts->approved,
                       .address_too = opts->address_too,
                       .fn = fn,
                       .arg = arg};
    r = proxy_choose(&g->config, opts->host, opts->plain_http, &d->proxy, &err);
    d->proxied = r > 0;
    if (r >= 0 && deadline_set(&g->loop, &d->deadline, DIAL_TIMEOUT_MS, dial_late, d) < 0) {
        free(d);
        return -ENOMEM;
    }
    *ret = d;
    if (r < 0)
        dial_fail(d, DIAL_FAILED, err.msg, 0);
    else
        dial_go(d);
    return 0;
}
