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

/* What poll() waits for: two sockets, an ssh-agent, and a bawn-vault for each grant. */
enum { POLL_GATE, POLL_SUPERVISOR, POLL_SSH, POLL_VALUES, POLL_MAX = POLL_VALUES + GRANTS_MAX };

static void leaf_request(struct broker *b, const struct broker_request *req, const uint8_t *data) {
    uint8_t leaf[LEAF_MAX];
    struct host host;
    size_t len = 0;
    int r = b->ca.key ? judge_leaf(b, req->host, &host) : -ENOENT;

    r = r < 0 ? r : ca_leaf(&b->ca, &host, data, req->len, leaf, sizeof leaf, &len);
    broker_answer_send(b, req->id, r, leaf, r < 0 ? 0 : len);
}

/* Whatever is not here does not exist. */
static broker_request_fn *const requests[BROKER_REQUESTS] = {
    [BROKER_LEAF] = leaf_request, [BROKER_VALUE] = value_request, [BROKER_SIGV4] = value_request, [BROKER_LOGIN] = value_request,
    [BROKER_SSH_KEYS] = ssh_keys, [BROKER_SSH_SIGN] = ssh_sign,   [BROKER_COVER] = value_request,
};

/* The first request of these bytes. */
static int read_request(const uint8_t *bytes, size_t len, struct broker_request *ret) {
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
        r = read_request(bytes + at, len - at, &req);
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

static int (*const takers[BROKER_MSG_TYPES])(struct broker *b, const struct broker_msg *m, int fd,
                                             struct err *err) = {[BROKER_MSG_CONFIG] = take_config,
                                                                 [BROKER_MSG_VAULT] = take_vault,
                                                                 [BROKER_MSG_AGENT] = take_agent,
                                                                 [BROKER_MSG_RENEW] = take_renew};

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

/* Until there is a policy the gate has to wait; that it is gone is noticed nevertheless. */
static int wait_and_serve(struct broker *b, struct err *err) {
    struct pollfd fds[POLL_MAX] = {
        [POLL_GATE] = {.fd = b->gate, .events = b->configured ? POLLIN : 0},
        [POLL_SUPERVISOR] = {.fd = b->supervisor, .events = POLLIN},
    };
    int n, r = 0;

    ssh_poll_fill(b, &fds[POLL_SSH]);
    values_poll_fill(b, &fds[POLL_VALUES]);
    n = poll(fds, ARRAY_LEN(fds), clock_sooner(clock_sooner(ssh_timeout_ms(b), values_timeout_ms(b)), used_timeout_ms(b)));
    if (n < 0)
        return errno == EINTR ? 0 : err_sys(err, -errno, "wait");
    if (fds[POLL_SUPERVISOR].revents)
        r = read_supervisor(b, err);
    if (r < 0 || b->over)
        return r;
    ssh_poll_done(b, fds[POLL_SSH].revents);
    values_poll_done(b, &fds[POLL_VALUES]);
    if (!fds[POLL_GATE].revents || b->over)
        return 0;
    if (fds[POLL_GATE].events || !(fds[POLL_GATE].revents & POLLHUP))
        return read_gate(b, err);
    b->over = true;
    return 0;
}

int serve_round(struct broker *b, struct err *err) {
    int r = wait_and_serve(b, err);

    used_flush(b, false);
    broker_flush(b);
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
