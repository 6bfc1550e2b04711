/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to the supervisor: configurations, questions, events. */
#include "gateway/gate_control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "gateway/epoll_set.h"
#include "gateway/flow/flow.h"
#include "gateway/flow/why.h"
#include "gateway/secret/brokerlink.h"
#include "os/fd.h"
#include "os/sock.h"
#include "policy/confload.h"

enum { SEND_BATCH = 64 };

struct gate_control {
    struct gate *gate;
    int fd;
    bool started;
    uv_poll_t poll;
    bool urgent;  /* messages go out together, before the loop sleeps; else with others, soon */
    bool writing; /* the loop waits until the socket takes more */
    struct deadline soon;
    struct gate_msg *queue; /* a ring */
    size_t first, len;
};

int control_new(struct gate *g, int fd, struct gate_control **ret, struct err *err) {
    struct gate_control *c = calloc(1, sizeof *c);

    if (!c || !(c->queue = calloc(CONTROL_QUEUE_MAX, sizeof *c->queue))) {
        free(c);
        closep(&fd);
        return err_oom(err);
    }
    c->gate = g;
    c->fd = fd;
    *ret = c;
    return 0;
}

int control_wait_config(struct gate_control *c, struct gate_config *ret, uint32_t *ret_gate, struct err *err) {
    CLEANUP(closep) int fd = -1;
    struct gate_msg m;
    size_t n_fds = 1;
    long n = sock_recv(c->fd, &m, sizeof m, &fd, &n_fds);

    if (n <= 0)
        return err_sys(err, n < 0 ? (int)n : -ECONNRESET, "wait for the gate's configuration");
    if (n != sizeof m || m.type != GATE_MSG_CONFIG || fd < 0)
        return err_set(err, -EBADMSG, "unexpected message before the gate's configuration (type %u, %ld bytes)", m.type, n);
    *ret_gate = m.id;
    return confload_read(fd, ret, err);
}

/* Questions that wait for the user outside ------------------------------------------------------------------------- */

struct ask {
    struct gate *gate;
    struct ask *next;
    uint32_t id;
    ask_fn *fn;
    void *arg;
    struct deadline deadline;
};

static void ask_unlink(struct ask *a) {
    struct gate *g = a->gate;

    for (struct ask **at = &g->asks.first; *at; at = &(*at)->next)
        if (*at == a) {
            *at = a->next;
            g->asks.n--;
            break;
        }
    deadline_done(&a->deadline);
    free(a);
}

static void ask_end(struct ask *a, enum gate_answer answer) {
    ask_fn *fn = a->fn;
    void *arg = a->arg;

    ask_unlink(a);
    fn(arg, answer);
}

static void say_cancel(struct ask *a) {
    gate_send(a->gate, &(struct gate_msg){.type = GATE_MSG_CANCEL, .id = a->id});
}

static void ask_late(void *arg) {
    struct ask *a = arg;

    snprintf(a->gate->asks.said, sizeof a->gate->asks.said, "no answer came in time");
    say_cancel(arg);
    ask_end(arg, GATE_DENY);
}

struct ask *gate_ask(struct gate *g, const struct gate_msg *question, ask_fn *fn, void *arg) {
    uint32_t ms = g->config.ask_timeout_ms ? g->config.ask_timeout_ms : ASK_TIMEOUT_DEFAULT_MS;
    struct ask *a = g->asks.n < ASKS_MAX ? calloc(1, sizeof *a) : NULL;
    struct gate_msg m = *question;

    if (!a)
        return NULL;
    *a = (struct ask){.gate = g, .next = g->asks.first, .id = ++g->asks.last_id, .fn = fn, .arg = arg};
    if (deadline_set(&g->loop, &a->deadline, ms, ask_late, a) < 0) {
        free(a);
        return NULL;
    }
    g->asks.first = a;
    g->asks.n++;
    m.type = m.type == GATE_MSG_REQUEST ? GATE_MSG_REQUEST : GATE_MSG_ASK;
    m.id = a->id;
    gate_send(g, &m);
    return a;
}

void gate_ask_cancel(struct ask *a) {
    say_cancel(a);
    ask_unlink(a);
}

/* An id that is not waited for is left alone. */
static void ask_answer(struct gate *g, uint32_t id, enum gate_answer answer) {
    for (struct ask *a = g->asks.first; a; a = a->next)
        if (a->id == id) {
            ask_end(a, answer);
            return;
        }
}

/* Messages of the supervisor ---------------------------------------------------------------------------------------- */

static void take_config(struct gate_control *c, const struct gate_msg *m UNUSED, int fd) {
    struct gate_msg answer = {.type = GATE_MSG_READY};
    struct gate_config config = {0};
    struct err err = {0};
    int r = confload_read(fd, &config, &err);

    answer.id = config.generation;
    r = r < 0 ? r : gate_reload(c->gate, &config, &err);
    answer.value = r < 0 ? r : (int32_t)c->gate->config.generation;
    if (r < 0)
        snprintf(answer.host, sizeof answer.host, "%.*s", (int)sizeof answer.host - 1, err.msg);
    closep(&fd);
    gate_send(c->gate, &answer);
}

static void take_answer(struct gate_control *c, const struct gate_msg *m, int fd) {
    closep(&fd);
    snprintf(c->gate->asks.said, sizeof c->gate->asks.said, "%s", m->pattern);
    ask_answer(c->gate, m->id, m->value > GATE_DENY && m->value < GATE_ANSWERS ? (enum gate_answer)m->value : GATE_DENY);
}

static void take_broker(struct gate_control *c, const struct gate_msg *m UNUSED, int fd) {
    brokerlink_socket(c->gate->broker, fd);
}

static void take_inside(struct gate_control *c, const struct gate_msg *m, int fd) {
    flow_inside(c->gate, m->id, m->value, fd);
}

static void take_stop(struct gate_control *c, const struct gate_msg *m UNUSED, int fd) {
    closep(&fd);
    gate_stop(c->gate, 0);
}

static void (*const takers[GATE_MSG_TYPES])(struct gate_control *c, const struct gate_msg *m, int fd) = {
    [GATE_MSG_CONFIG] = take_config, [GATE_MSG_ANSWER] = take_answer, [GATE_MSG_BROKER] = take_broker,
    [GATE_MSG_INSIDE] = take_inside, [GATE_MSG_STOP] = take_stop,
};

static void control_read(struct gate_control *c) {
    struct gate_msg m;
    int fd = -1;
    size_t n_fds = 1;
    long n = sock_recv(c->fd, &m, sizeof m, &fd, &n_fds);

    if (n == -EAGAIN)
        return;
    if (n != sizeof m || m.type >= GATE_MSG_TYPES || !takers[m.type]) { /* gone, or not our supervisor any more */
        closep(&fd);
        gate_stop(c->gate, n == 0 ? 0 : -EBADMSG);
        return;
    }
    takers[m.type](c, &m, fd);
}

static size_t send_batch(struct gate_control *c) {
    struct mmsghdr out[SEND_BATCH];
    struct iovec iov[SEND_BATCH];
    size_t n = MIN_OF(MIN_OF(c->len, CONTROL_QUEUE_MAX - c->first), (size_t)SEND_BATCH);
    int sent;

    for (size_t i = 0; i < n; i++) {
        iov[i] = (struct iovec){.iov_base = &c->queue[c->first + i], .iov_len = sizeof c->queue[0]};
        out[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov[i], .msg_iovlen = 1}};
    }
    sent = n ? sendmmsg(c->fd, out, (unsigned)n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        gate_stop(c->gate, -errno);
    if (sent <= 0)
        return 0;
    c->first = (c->first + (size_t)sent) % CONTROL_QUEUE_MAX;
    c->len -= (size_t)sent;
    if (!c->len)
        c->first = 0; /* a short queue then never touches the rest of its memory */
    return (size_t)sent;
}

static void control_ready(uv_poll_t *poll, int status, int events) {
    struct gate_control *c = poll->data;

    if (status < 0 || (events & UV_READABLE))
        control_read(c);
    if (events & UV_WRITABLE)
        control_flush(c);
}

void control_flush(struct gate_control *c) {
    bool was_full = control_is_full(c);

    while (send_batch(c) > 0)
        ;
    c->urgent = false;
    if (!c->started)
        return;
    if (c->writing != (c->len > 0)) {
        c->writing = c->len > 0;
        uv_poll_start(&c->poll, UV_READABLE | (c->writing ? UV_WRITABLE : 0), control_ready);
    }
    if (was_full && !control_is_full(c))
        listeners_resume(c->gate);
}

void control_drain(struct gate_control *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLOUT};

    while (c->len && !(p.revents & (POLLERR | POLLHUP)))
        if (!send_batch(c) && poll(&p, 1, -1) < 0 && errno != EINTR)
            return;
}

void control_before_sleep(struct gate_control *c) {
    if (c->urgent && !c->writing)
        control_flush(c);
}

static void control_soon(void *arg) {
    control_flush(arg);
}

int control_start(struct gate_control *c) {
    int flags = fcntl(c->fd, F_GETFL), r;

    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    r = uv_poll_init(&c->gate->loop, &c->poll, c->fd);
    if (r < 0)
        return r;
    c->poll.data = c;
    c->started = true;
    return uv_poll_start(&c->poll, UV_READABLE, control_ready);
}

bool control_is_full(const struct gate_control *c) {
    return c && c->len >= CONTROL_QUEUE_FULL;
}

/* Every verdict has to be in the log: a sandbox that causes them faster than they are written waits. */
static void wait_for_space(struct gate_control *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLOUT};

    while (c->len == CONTROL_QUEUE_MAX) {
        if (poll(&p, 1, CONTROL_STUCK_MS) == 0) {
            log_line("the supervisor does not take the gate's messages");
            _exit(EXIT_SANDBOX);
        }
        if (!send_batch(c) && (p.revents & (POLLERR | POLLHUP)))
            _exit(EXIT_SANDBOX);
    }
}

/* What was allowed, and what has ended. */
static bool is_urgent(const struct gate_msg *m) {
    return m->type != GATE_MSG_EVENT || m->action != RULE_ALLOW || m->kind == GATE_EVENT_TROUBLE;
}

void gate_send(struct gate *g, const struct gate_msg *m) {
    struct gate_control *c = g->control;

    if (!c)
        return;
    wait_for_space(c);
    c->queue[(c->first + c->len++) % CONTROL_QUEUE_MAX] = *m;
    if (is_urgent(m) || (c->len == 1 && deadline_set(&g->loop, &c->soon, CONTROL_DELAY_MS, control_soon, c) < 0))
        c->urgent = true;
}

static void copy_text(char *out, size_t size, const char *text) {
    snprintf(out, size, "%s", text ? text : "");
}

void gate_event_fill(struct gate_msg *m, enum gate_event_kind kind, uint64_t flow, const char *host, uint16_t port,
                     const struct policy_verdict *v) {
    memset(m, 0, sizeof *m);
    m->type = GATE_MSG_EVENT;
    m->kind = kind;
    m->flow = flow;
    m->port = port;
    copy_text(m->host, sizeof m->host, host);
    if (!v)
        return;
    m->action = v->action;
    m->code = v->code;
    copy_text(m->rule, sizeof m->rule, v->rule ? v->rule->id : "");
    copy_text(m->layer, sizeof m->layer, v->layer);
    copy_text(m->pattern, sizeof m->pattern, v->pattern);
}

void gate_event(struct gate *g, enum gate_event_kind kind, uint64_t flow, const char *host, uint16_t port,
                const struct policy_verdict *v) {
    struct gate_msg m;

    gate_event_fill(&m, kind, flow, host, port, v);
    gate_send(g, &m);
    if (v && v->action == RULE_DENY)
        why_note(g->why, gate_now_s(g), host, port, v);
}

void gate_trouble(struct gate *g, uint64_t flow, const char *host, uint16_t port, enum policy_code code, const char *text) {
    struct gate_msg m;

    gate_event_fill(&m, GATE_EVENT_TROUBLE, flow, host, port, NULL);
    m.action = RULE_ALLOW;
    m.code = code;
    copy_text(m.path, sizeof m.path, text);
    gate_send(g, &m);
}
