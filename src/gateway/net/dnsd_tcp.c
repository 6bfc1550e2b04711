/* SPDX-License-Identifier: Apache-2.0 */
/* DNS over TCP: questions one after the other, answered in order. Nothing is read while an answer waits to be sent. */
#include <errno.h>
#include <sys/socket.h>

#include "gateway/gate.h"
#include "gateway/net/dnsd_priv.h"
#include "os/fd.h"

enum { FRAME = 2 };

struct dnsd_conn {
    struct dnsd *dnsd;
    struct dnsd_conn *prev, *next;
    int fd;
    uv_poll_t poll;
    uv_timer_t idle;
    unsigned handles; /* that the loop still knows */
    uint8_t in[FRAME + DNS_QUERY_MAX], out[FRAME + DNS_ANSWER_MAX];
    size_t in_len, out_len, out_at;
    bool ended; /* the client will send no more */
};

static void on_closed(uv_handle_t *handle) {
    struct dnsd_conn *c = handle->data;

    if (--c->handles == 0)
        free(c);
}

void dnsd_conn_close(struct dnsd_conn *c) {
    struct dnsd *d = c->dnsd;

    *(c->prev ? &c->prev->next : &d->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    d->n_conns--;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    uv_close((uv_handle_t *)&c->idle, on_closed);
    closep(&c->fd);
}

static void on_idle(uv_timer_t *timer) {
    dnsd_conn_close(timer->data);
}

/* 1: all is sent, 0: the client has to read first, negative: it is gone. */
static int send_answer(struct dnsd_conn *c) {
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        c->out_at += (size_t)n;
    }
    c->out_at = c->out_len = 0;
    return 1;
}

/* 1: a question was answered, 0: it is not all here, negative: no question of ours. Only whole questions buy time. */
static int answer_next(struct dnsd_conn *c) {
    int len = dns_frame(c->in, c->in_len);
    size_t n;

    if (len <= 0)
        return len;
    n = dnsd_reply(c->dnsd, c->in + FRAME, (size_t)len, c->out + FRAME, sizeof c->out - FRAME);
    if (n == 0)
        return -EBADMSG;
    c->out[0] = (uint8_t)(n >> 8);
    c->out[1] = (uint8_t)n;
    c->out_len = FRAME + n;
    c->in_len -= FRAME + (size_t)len;
    memmove(c->in, c->in + FRAME + len, c->in_len);
    uv_timer_again(&c->idle);
    return 1;
}

/* 1: bytes came, 0: none for now, negative: the connection failed. */
static int receive(struct dnsd_conn *c) {
    ssize_t n = recv(c->fd, c->in + c->in_len, sizeof c->in - c->in_len, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN ? 0 : errno == EINTR ? 1 : -errno;
    c->ended |= n == 0;
    c->in_len += (size_t)n;
    return n > 0;
}

/* 1: the turn is used up, 0: waits for the client, negative: over. */
static int step(struct dnsd_conn *c) {
    int r = send_answer(c);

    if (r <= 0)
        return r;
    r = answer_next(c);
    if (r != 0)
        return r;
    r = c->ended ? 0 : receive(c);
    return r == 0 && c->ended ? -ECONNRESET : r;
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct dnsd_conn *c = poll->data;
    int r = status < 0 ? status : 1;

    for (int i = 0; i < DNSD_BATCH && r > 0; i++)
        r = step(c);
    /* A client that sent many questions at once and waits: the socket is not readable again for those that are here already. */
    if (r >= 0)
        r = uv_poll_start(poll, c->out_len || dns_frame(c->in, c->in_len) ? UV_WRITABLE : UV_READABLE, on_ready);
    if (r < 0)
        dnsd_conn_close(c);
}

static struct dnsd_conn *conn_new(struct dnsd *d, int fd) {
    struct dnsd_conn *c = calloc(1, sizeof *c);

    if (!c || uv_poll_init(&d->gate->loop, &c->poll, fd) < 0) {
        free(c);
        return NULL;
    }
    uv_timer_init(&d->gate->loop, &c->idle);
    c->poll.data = c->idle.data = c;
    c->handles = 2;
    c->dnsd = d;
    c->fd = fd;
    c->next = d->conns;
    if (c->next)
        c->next->prev = c;
    d->conns = c;
    d->n_conns++;
    return c;
}

void dnsd_accept(struct dnsd *d, int fd) {
    CLEANUP(closep) int owned = fd;
    struct dnsd_conn *c = d->n_conns < DNSD_CONNECTIONS_MAX ? conn_new(d, owned) : NULL;

    if (!c)
        return;
    (void)TAKE_FD(owned);
    if (uv_timer_start(&c->idle, on_idle, DNSD_IDLE_MS, DNSD_IDLE_MS) < 0 || uv_poll_start(&c->poll, UV_READABLE, on_ready) < 0)
        dnsd_conn_close(c);
}
