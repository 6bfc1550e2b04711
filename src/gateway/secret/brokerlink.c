/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to bawn-broker. */
#include "gateway/secret/brokerlink.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "gateway/epoll_set.h"
#include "gateway/gate.h"
#include "os/fd.h"
#include "os/sock.h"

struct broker_call {
    struct broker_call *next;
    struct brokerlink *link;
    broker_fn *fn;
    void *arg;
    uint64_t until; /* ms, as the loop has it */
    bool sent;
    int failed;  /* -errno: fn has to be called with it */
    size_t size; /* of bytes */
    uint32_t id;
    uint8_t *bytes; /* the request; NULL once it was sent */
};

struct brokerlink {
    struct gate *gate;
    int fd;        /* -1: there is no broker */
    unsigned gone; /* how many there were */
    struct watch watch;
    bool asked; /* for a socket */
    uint32_t ids;
    struct broker_call *calls, **last; /* the oldest first */
    size_t n_calls;
    struct soon failed, send;
    struct deadline timeout;
    uint8_t out[BROKER_MESSAGE_MAX], in[BROKER_MESSAGE_MAX];
};

static void on_socket(void *arg, uint32_t events);
static void on_late(void *arg);

/* The timer is made here, so that setting it cannot fail later. */
int brokerlink_new(struct gate *g, struct brokerlink **ret) {
    struct brokerlink *b = calloc(1, sizeof *b);

    if (!b)
        return -ENOMEM;
    b->gate = g;
    b->fd = -1;
    b->watch = (struct watch)WATCH_INIT;
    b->last = &b->calls;
    if (deadline_prepare(&g->loop, &b->timeout) < 0) {
        free(b);
        return -ENOMEM;
    }
    *ret = b;
    return 0;
}

/* The bytes may be tokens that the client was not to see. */
static void drop_bytes(struct broker_call *c) {
    if (c->bytes)
        explicit_bzero(c->bytes, c->size);
    free(TAKE_PTR(c->bytes));
}

static void unlink_call(struct broker_call *c) {
    struct brokerlink *b = c->link;
    struct broker_call **at = &b->calls;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (b->last == &c->next)
        b->last = at;
    b->n_calls--;
}

static void free_call(struct broker_call *c) {
    drop_bytes(c);
    free(c);
}

void broker_call_cancel(struct broker_call *c) {
    unlink_call(c);
    free_call(c);
}

static void drop_socket(struct brokerlink *b) {
    watch_stop(b->gate->hub, &b->watch);
    closep(&b->fd);
    b->gone++;
}

void brokerlink_free(struct brokerlink *b) {
    if (!b)
        return;
    drop_socket(b);
    while (b->calls)
        broker_call_cancel(b->calls);
    soon_cancel(b->gate->hub, &b->failed);
    soon_cancel(b->gate->hub, &b->send);
    deadline_done(&b->timeout);
    explicit_bzero(b->in, sizeof b->in);
    free(b);
}

static void end_call(struct broker_call *c, int status, const uint8_t *data, size_t len) {
    unlink_call(c);
    c->fn(c->arg, status, data, len);
    free_call(c);
}

/* fn may make and cancel any call: the search begins anew after each. */
static void end_failed(void *arg) {
    struct brokerlink *b = arg;
    struct broker_call *c = b->calls;

    while (c)
        if (c->failed) {
            end_call(c, c->failed, NULL, 0);
            c = b->calls;
        } else {
            c = c->next;
        }
}

static void lose(struct brokerlink *b, int why) {
    drop_socket(b);
    b->asked = false;
    for (struct broker_call *c = b->calls; c; c = c->next)
        c->failed = c->failed ? c->failed : why;
    soon_set(b->gate->hub, &b->failed, end_failed, b);
}

/* Calls are in the order of their time: the first one that is open is the first one that is late. */
static void watch_time(struct brokerlink *b) {
    uint64_t now = uv_now(&b->gate->loop);
    const struct broker_call *c = b->calls;

    while (c && c->failed)
        c = c->next;
    if (!c)
        deadline_stop(&b->timeout);
    else
        deadline_set(&b->gate->loop, &b->timeout, c->until > now ? c->until - now : 0, on_late, b);
}

/* It answers everything within this time, if only by a failure: one that does not is stuck. */
static void on_late(void *arg) {
    struct brokerlink *b = arg;

    if (b->calls && b->calls->until <= uv_now(&b->gate->loop))
        lose(b, -ETIMEDOUT);
    watch_time(b);
}

/* As many of the calls from here on as one message holds; *ret_next is the first one that it does not. */
static size_t gather(struct brokerlink *b, struct broker_call *c, struct broker_call **ret_next) {
    size_t len = 0;

    for (; c && c->size <= sizeof b->out - len; c = c->next) {
        if (c->sent || c->failed)
            continue;
        memcpy(b->out + len, c->bytes, c->size);
        len += c->size;
    }
    *ret_next = c;
    return len;
}

static void mark_sent(struct broker_call *c, const struct broker_call *end) {
    for (; c != end; c = c->next) {
        c->sent |= !c->failed;
        drop_bytes(c);
    }
}

static void flush(struct brokerlink *b) {
    struct broker_call *c = b->calls, *next;
    int r = 0;

    for (; c && r == 0; c = next) {
        size_t len = gather(b, c, &next);

        r = len ? sock_send(b->fd, b->out, len, NULL, 0) : 0;
        explicit_bzero(b->out, len);
        if (r == 0)
            mark_sent(c, next);
    }
    if (r < 0 && r != -EAGAIN)
        lose(b, -ECONNRESET);
    else
        watch_set(b->gate->hub, &b->watch, EPOLLIN | (r == -EAGAIN ? EPOLLOUT : 0));
}

/* Requests of one turn of the loop go in one message. */
static void send_soon(void *arg) {
    struct brokerlink *b = arg;

    if (b->fd >= 0)
        flush(b);
}

/* The first answer of these bytes; how many bytes it has, or -EBADMSG. */
static long take_answer(struct brokerlink *b, const uint8_t *bytes, size_t len) {
    struct broker_call *c = b->calls;
    struct broker_answer a;

    if (len < sizeof a)
        return -EBADMSG;
    memcpy(&a, bytes, sizeof a);
    if (a.len > len - sizeof a || a.id > b->ids || a.id == 0)
        return -EBADMSG;
    while (c && c->id != a.id)
        c = c->next;
    if (c && c->sent && !c->failed) /* else it was cancelled */
        end_call(c, a.status > 0 ? -EBADMSG : a.status, bytes + sizeof a, a.len);
    return (long)(sizeof a + a.len);
}

/* One message: the loop calls again if there are more. */
static void take_answers(struct brokerlink *b) {
    unsigned life = b->gone;
    long len = sock_recv(b->fd, b->in, sizeof b->in, NULL, NULL), at = 0, n = 0;

    if (len == -EAGAIN)
        return;
    while (n >= 0 && at < len && b->gone == life) {
        n = take_answer(b, b->in + at, (size_t)(len - at));
        at += n;
    }
    explicit_bzero(b->in, (size_t)MAX_OF(len, 0L));
    if ((len <= 0 || n < 0) && b->gone == life)
        lose(b, -ECONNRESET);
}

static void on_socket(void *arg, uint32_t events) {
    struct brokerlink *b = arg;
    unsigned life = b->gone;

    take_answers(b);
    if (b->gone == life && (events & EPOLLOUT))
        flush(b);
    watch_time(b);
}

static int open_socket(struct brokerlink *b, int fd) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
        return -errno;
    return watch_start(b->gate->hub, &b->watch, fd, EPOLLIN, on_socket, b);
}

void brokerlink_socket(struct brokerlink *b, int fd) {
    if (fd >= 0 && b->fd < 0 && open_socket(b, fd) == 0) {
        b->fd = fd;
        flush(b);
        return;
    }
    closep(&fd);
    if (b->fd < 0)
        lose(b, -ENOTCONN);
}

static struct broker_call *make_call(struct brokerlink *b, struct broker_request *req, const void *data, size_t len) {
    struct broker_call *c;

    if (b->n_calls >= BROKERLINK_CALLS_MAX || len > BROKER_DATA_MAX || b->ids == UINT32_MAX)
        return NULL;
    c = calloc(1, sizeof *c);
    if (!c || !(c->bytes = malloc(sizeof *req + len))) {
        free(c);
        return NULL;
    }
    req->id = c->id = ++b->ids;
    req->len = (uint32_t)len;
    memcpy(c->bytes, req, sizeof *req);
    if (len)
        memcpy(c->bytes + sizeof *req, data, len);
    c->size = sizeof *req + len;
    return c;
}

struct broker_call *broker_call(struct brokerlink *b, struct broker_request *req, const void *data, size_t len, broker_fn *fn,
                                void *arg) {
    struct broker_call *c = make_call(b, req, data, len);

    if (!c)
        return NULL;
    c->link = b;
    c->fn = fn;
    c->arg = arg;
    c->until = uv_now(&b->gate->loop) + BROKERLINK_TIMEOUT_MS;
    *b->last = c;
    b->last = &c->next;
    b->n_calls++;
    if (b->fd >= 0) {
        soon_set(b->gate->hub, &b->send, send_soon, b);
    } else if (!b->asked) {
        b->asked = true;
        gate_send(b->gate, &(struct gate_msg){.type = GATE_MSG_WANT_BROKER});
    }
    if (b->n_calls == 1)
        watch_time(b);
    return c;
}
