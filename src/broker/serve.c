/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the broker, its table of requests and its table of messages. */
#include "broker/serve.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "broker/values/values.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sock.h"

enum { LEAF_MAX = 4096 };

/* Uses of values, for the log --------------------------------------------------------------------------------------- */

static void report_use(struct broker *b, struct used *u, uint32_t count, uint64_t now) {
    u->msg.count = count;
    u->more = 0;
    u->reported_ms = now;
    broker_msg_send(b, &u->msg);
}

static bool is_same(const struct broker_msg *a, const struct broker_msg *c) {
    return a->index == c->index && a->value == c->value && a->port == c->port && strcmp(a->host, c->host) == 0 &&
           strcmp(a->method, c->method) == 0;
}

/* The one of this kind, else the one that was reported longest ago. */
static struct used *find_use(struct broker *b, const struct broker_msg *m) {
    struct used *oldest = &b->used[0];

    for (size_t i = 0; i < BROKER_USED_KINDS; i++) {
        if (b->used[i].reported_ms && is_same(&b->used[i].msg, m))
            return &b->used[i];
        if (b->used[i].reported_ms < oldest->reported_ms)
            oldest = &b->used[i];
    }
    if (oldest->more)
        report_use(b, oldest, oldest->more, clock_ms());
    *oldest = (struct used){.msg = *m};
    return oldest;
}

void used_report(struct broker *b, const struct broker_msg *m) {
    struct used *u = find_use(b, m);
    uint64_t now = clock_ms();

    u->more++;
    if (!u->reported_ms || now - u->reported_ms >= USED_PAUSE_MS)
        report_use(b, u, u->more, now);
}

/* Those that waited long enough; all: every one. */
static void used_flush(struct broker *b, bool all) {
    uint64_t now = clock_ms();

    for (size_t i = 0; i < BROKER_USED_KINDS; i++)
        if (b->used[i].more && (all || now - b->used[i].reported_ms >= USED_PAUSE_MS))
            report_use(b, &b->used[i], b->used[i].more, now);
}

/* -1: none waits. */
static int used_timeout_ms(const struct broker *b) {
    uint64_t now = clock_ms(), least = UINT64_MAX;

    for (size_t i = 0; i < BROKER_USED_KINDS; i++)
        if (b->used[i].more)
            least =
                MIN_OF(least, b->used[i].reported_ms + USED_PAUSE_MS > now ? b->used[i].reported_ms + USED_PAUSE_MS - now : 0);
    return least == UINT64_MAX ? -1 : (int)least;
}

/* ------------------------------------------------------------------------------------------------------------------- */

/* For denied hosts, too: the gate says in their place why. Only this sandbox believes in the authority. */
static void leaf_request(struct broker *b, const struct broker_request *req, const uint8_t *data) {
    uint8_t leaf[LEAF_MAX];
    struct host host;
    size_t len = 0;
    int r = b->ca.key ? host_parse(req->host, strlen(req->host), &host, NULL) : -ENOENT;

    r = r < 0 ? r : ca_leaf(&b->ca, &host, data, req->len, leaf, sizeof leaf, &len);
    broker_answer_send(b, req->id, r, leaf, r < 0 ? 0 : len);
}

/* Whatever is not here does not exist. */
static broker_request_fn *const requests[BROKER_REQUESTS] = {
    [BROKER_LEAF] = leaf_request, [BROKER_VALUE] = value_request, [BROKER_SIGV4] = value_request, [BROKER_LOGIN] = value_request,
    [BROKER_SSH_KEYS] = ssh_keys, [BROKER_SSH_SIGN] = ssh_sign,   [BROKER_COVER] = value_request,
};

/* The first request of these bytes. */
static int read_gate_request(const uint8_t *bytes, size_t len, struct broker_request *ret) {
    if (len < sizeof *ret)
        return -EBADMSG;
    memcpy(ret, bytes, sizeof *ret);
    if (ret->len > BROKER_DATA_MAX || len - sizeof *ret < ret->len || ret->type >= BROKER_REQUESTS || !requests[ret->type])
        return -EBADMSG;
    if (strnlen(ret->host, sizeof ret->host) > BROKER_HOST_MAX || strnlen(ret->method, sizeof ret->method) > BROKER_METHOD_MAX)
        return -EBADMSG;
    return 0;
}

/* All of the message is looked at before any of it is done. */
static int serve_each(struct broker *b, const uint8_t *bytes, size_t len, bool look_only) {
    struct broker_request req;
    size_t at = 0;
    int r = 0;

    do {
        r = read_gate_request(bytes + at, len - at, &req);
        if (r == 0 && !look_only)
            requests[req.type](b, &req, bytes + at + sizeof req);
        at += sizeof req + req.len;
    } while (r == 0 && at < len);
    return r;
}

int serve_requests(struct broker *b, void *bytes, size_t len) {
    int r = serve_each(b, bytes, len, true);

    r = r < 0 ? r : serve_each(b, bytes, len, false);
    explicit_bzero(bytes, len);
    return r;
}

/* Without a policy nothing is given out. A new one that cannot be read leaves the old one in force. */
static int take_config(struct broker *b, const struct broker_msg *m UNUSED, int fd, struct err *err) {
    CLEANUP(closep) int memfd = fd;
    int r = memfd < 0 ? err_set(err, -EBADMSG, "a configuration came without its file") : broker_configure(b, memfd, err);

    if (r < 0 && b->configured) {
        log_err(err);
        return 0;
    }
    return r;
}

static int take_vault(struct broker *b, const struct broker_msg *m, int fd, struct err *err UNUSED) {
    values_vault(b, m, fd);
    return 0;
}

static int take_agent(struct broker *b, const struct broker_msg *m, int fd, struct err *err UNUSED) {
    ssh_agent_fd(b, fd >= 0 ? fd : m->value > 0 ? -m->value : -ENOENT);
    return 0;
}

static int take_renew(struct broker *b, const struct broker_msg *m, int fd, struct err *err UNUSED) {
    closep(&fd);
    values_renew(b, m->index);
    return 0;
}

static int take_fetch(struct broker *b, const struct broker_msg *m, int fd, struct err *err UNUSED) {
    closep(&fd);
    values_fetch(b, m->index);
    return 0;
}

static int (*const takers[BROKER_MSG_TYPES])(struct broker *b, const struct broker_msg *m, int fd,
                                             struct err *err) = {[BROKER_MSG_CONFIG] = take_config,
                                                                 [BROKER_MSG_VAULT] = take_vault,
                                                                 [BROKER_MSG_AGENT] = take_agent,
                                                                 [BROKER_MSG_RENEW] = take_renew,
                                                                 [BROKER_MSG_FETCH] = take_fetch};

int serve_message(struct broker *b, const struct broker_msg *m, size_t len, int fd, struct err *err) {
    if (len == sizeof *m && m->type < BROKER_MSG_TYPES && takers[m->type] && (b->configured || m->type == BROKER_MSG_CONFIG))
        return takers[m->type](b, m, fd, err);
    closep(&fd);
    return err_set(err, -EBADMSG, "unknown message from the supervisor (type %u, %zu bytes)", m->type, len);
}

static int read_supervisor(struct broker *b, struct err *err) {
    struct broker_msg m;
    size_t n_fds = 1;
    int fd = -1;
    long n = sock_recv(b->supervisor, &m, sizeof m, &fd, &n_fds);

    if (n == 0 || n == -ECONNRESET) {
        b->over = true;
        return 0;
    }
    return n < 0 ? err_sys(err, (int)n, "read what the supervisor says") : serve_message(b, &m, (size_t)n, fd, err);
}

static int read_gate(struct broker *b, struct err *err) {
    long n = sock_recv(b->gate, b->in.p, BROKER_MESSAGE_MAX, NULL, NULL);
    int r;

    if (n == 0 || n == -ECONNRESET) {
        b->over = true;
        return 0;
    }
    r = n < 0 ? (int)n : serve_requests(b, b->in.p, (size_t)n);
    return r < 0 ? err_sys(err, r, "answer the gate") : 0;
}

static int on_supervisor(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    struct broker *b = arg;

    return read_supervisor(b, b->err);
}

static void want_ssh(struct evloop *l, void *arg) {
    struct pollfd p;

    ssh_poll_fill(arg, &p);
    evloop_want(l, p.fd, p.events);
    evloop_wake_in(l, ssh_timeout_ms(arg));
}

static int on_ssh(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    if (!((struct broker *)arg)->over)
        ssh_poll_done(arg, fds->revents);
    return 0;
}

static void want_values(struct evloop *l, void *arg) {
    struct pollfd *fds = evloop_slots(l, GRANTS_MAX);

    if (fds)
        values_poll_fill(arg, fds);
    evloop_wake_in(l, clock_sooner(values_timeout_ms(arg), used_timeout_ms(arg)));
}

static int on_values(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    if (!((struct broker *)arg)->over)
        values_poll_done(arg, fds);
    return 0;
}

/* Until there is a policy the gate has to wait; its end is noticed nevertheless. */
static void want_gate(struct evloop *l, void *arg) {
    const struct broker *b = arg;

    evloop_want(l, b->gate, b->configured ? POLLIN : 0);
}

static int on_gate(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    struct broker *b = arg;

    if (!b->over && (fds->events || !(fds->revents & POLLHUP)))
        return read_gate(b, b->err);
    b->over = true;
    return 0;
}

/* The supervisor first: a new policy counts for what the gate asks in the same turn. */
static int start_loop(struct broker *b) {
    const struct evloop_source sources[] = {
        {.fd = b->supervisor, .events = POLLIN, .ready = on_supervisor, .arg = b},
        {.prepare = want_ssh, .ready = on_ssh, .each_turn = true, .arg = b},
        {.prepare = want_values, .ready = on_values, .each_turn = true, .arg = b},
        {.prepare = want_gate, .ready = on_gate, .arg = b},
    };
    int r = 0;

    static_assert(sizeof sources == sizeof b->sources, "one place for each");
    memcpy(b->sources, sources, sizeof sources);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(sources); i++)
        r = evloop_add(&b->loop, &b->sources[i]);
    return r;
}

int serve_round(struct broker *b, struct err *err) {
    struct err why = {0};
    int r = b->loop.n_sources ? 0 : start_loop(b);

    b->err = &why;
    r = r < 0 ? r : evloop_turn(&b->loop);
    used_flush(b, false);
    broker_flush(b);
    if (r < 0 && !why.msg[0])
        return err_sys(err, r, "wait for the gate and the supervisor");
    if (r < 0 && err)
        *err = why;
    return r;
}

int serve_loop(struct broker *b, struct err *err) {
    int r = 0;

    while (r == 0 && !b->over)
        r = serve_round(b, err);
    b->over = false; /* it was the gate, most likely: the supervisor still wants to know */
    used_flush(b, true);
    return r;
}
