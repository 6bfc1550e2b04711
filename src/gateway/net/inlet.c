/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets inside the sandbox that take one message and give one answer at a time. */
#include "gateway/net/inlet.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "gateway/epoll_set.h"
#include "gateway/gate.h"
#include "gateway/net/delivery.h"
#include "os/fd.h"

enum {
    ACCEPT_MAX = 8,
    FIRST_SIZE = 4096,
    MESSAGES_PER_TURN = 32, /* then others have theirs */
    PAUSE_MS = 100          /* out of descriptors */
};

struct inlet_client {
    struct inlet *inlet;
    struct inlet_client *next, **at;
    int fd;
    struct watch watch;
    uint8_t *in, *out;
    size_t in_len, in_cap, out_len, out_sent;
    bool busy;    /* a message waits for its answer */
    bool turning; /* client_turn() runs */
    bool eof;
    max_align_t state[];
};

struct inlet {
    struct gate *gate;
    const struct inlet_ops *ops;
    void *arg;
    int fd;
    bool delivered; /* no listener: gateway/net/delivery.h */
    struct watch watch;
    struct deadline pause;
    struct inlet_client *clients;
    size_t n;
};

void *inlet_state(struct inlet_client *c) {
    return c->state;
}

void *inlet_arg(const struct inlet_client *c) {
    return c->inlet->arg;
}

struct gate *inlet_gate(const struct inlet_client *c) {
    return c->inlet->gate;
}

static void listen_again(void *arg) {
    struct inlet *i = arg;

    watch_set(i->gate->hub, &i->watch, i->n < INLET_CLIENTS_MAX ? EPOLLIN : 0);
}

static void client_free(struct inlet_client *c) {
    struct inlet *i = c->inlet;

    if (i->ops->gone)
        i->ops->gone(c);
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    i->n--;
    watch_stop(i->gate->hub, &c->watch);
    closep(&c->fd);
    free(c->in);
    free(c->out);
    free(c);
    listen_again(i);
}

/* -EAGAIN: later. -EPIPE */
static int client_flush(struct inlet_client *c) {
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
        c->out_sent += (size_t)n;
    }
    free(TAKE_PTR(c->out));
    c->out_len = c->out_sent = 0;
    return 0;
}

static int client_grow(struct inlet_client *c) {
    size_t max = c->inlet->ops->message_max, cap = c->in_cap ? MIN_OF(2 * c->in_cap, max) : MIN_OF((size_t)FIRST_SIZE, max);
    uint8_t *more;

    if (c->in_len < c->in_cap)
        return 0;
    if (c->in_cap == max)
        return -EMSGSIZE;
    more = realloc(c->in, cap);
    if (!more)
        return -ENOMEM;
    c->in = more;
    c->in_cap = cap;
    return 0;
}

/* 1: some came; 0: nothing now; negative: drop it. */
static int client_read(struct inlet_client *c) {
    ssize_t n;
    int r = client_grow(c);

    if (r < 0)
        return r;
    n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    c->eof = n == 0;
    c->in_len += (size_t)n;
    return n > 0;
}

/* 1: a message was taken; 0: there is no whole one; negative: drop the client. */
static int client_message(struct inlet_client *c) {
    long n = c->in_len ? c->inlet->ops->frame(c->in, c->in_len) : 0;

    if (n <= 0)
        return (int)n;
    c->busy = true;
    c->inlet->ops->message(c, c->in, (size_t)n);
    c->in_len -= (size_t)n;
    memmove(c->in, c->in + n, c->in_len);
    if (!c->in_len) { /* most clients wait for hours between two questions */
        free(TAKE_PTR(c->in));
        c->in_cap = 0;
    }
    return 1;
}

static int client_work(struct inlet_client *c) {
    int r = client_flush(c);

    for (int i = 0; r == 0 && !c->busy && i < MESSAGES_PER_TURN; i++) {
        r = client_message(c);
        if (r == 0 && !c->eof)
            r = client_read(c);
        if (r <= 0 || c->eof)
            return r;
        r = client_flush(c);
    }
    return r == -EAGAIN ? 0 : r;
}

static bool has_message(struct inlet_client *c) {
    return c->in_len && c->inlet->ops->frame(c->in, c->in_len) != 0;
}

static void client_turn(struct inlet_client *c) {
    bool ready, open;
    int r;

    c->turning = true;
    r = client_work(c);
    c->turning = false;
    ready = !c->busy && has_message(c);
    open = c->busy || c->out_len || ready || !c->eof;
    if (r < 0 || !open) {
        client_free(c);
        return;
    }
    watch_set(c->inlet->gate->hub, &c->watch,
              (c->out_len || ready ? EPOLLOUT : 0u) | (c->busy || c->out_len || c->eof ? 0u : (uint32_t)EPOLLIN));
}

static void client_ready(void *arg, uint32_t events) {
    struct inlet_client *c = arg;

    if (events & EPOLLERR || (events & EPOLLHUP && (c->busy || c->eof)))
        client_free(c);
    else
        client_turn(c);
}

void inlet_answer(struct inlet_client *c, const void *data, size_t len) {
    c->busy = false;
    c->out = malloc(len);
    if (c->out) {
        memcpy(c->out, data, len);
        c->out_len = len;
    } else
        shutdown(c->fd, SHUT_RDWR); /* no answer, so no more questions */
    if (!c->turning)
        client_turn(c);
}

static int client_new(struct inlet *i, int fd) {
    struct inlet_client *c = calloc(1, sizeof *c + i->ops->state_size);
    int r;

    if (!c) {
        closep(&fd);
        return -ENOMEM;
    }
    c->inlet = i;
    c->fd = fd;
    c->watch = (struct watch)WATCH_INIT;
    r = watch_start(i->gate->hub, &c->watch, fd, EPOLLIN, client_ready, c);
    if (r < 0) {
        closep(&c->fd);
        free(c);
        return r;
    }
    c->next = i->clients;
    c->at = &i->clients;
    if (c->next)
        c->next->at = &c->next;
    i->clients = c;
    i->n++;
    return 0;
}

static void inlet_ready(void *arg, uint32_t events UNUSED) {
    struct inlet *i = arg;

    for (int n = 0; n < ACCEPT_MAX && i->n < INLET_CLIENTS_MAX; n++) {
        int fd = delivery_or_accept(i->fd, &i->delivered, NULL);

        if (fd == -EPIPE) { /* the sandbox is gone; its end would be reported again and again */
            watch_stop(i->gate->hub, &i->watch);
            return;
        }
        if (fd == -EAGAIN || fd == -ECONNABORTED || fd == -EINTR)
            return;
        if (fd < 0 || client_new(i, fd) < 0) {
            watch_set(i->gate->hub, &i->watch, 0);
            deadline_set(&i->gate->loop, &i->pause, PAUSE_MS, listen_again, i);
            return;
        }
    }
    listen_again(i);
}

int inlet_new(struct gate *g, int fd, const struct inlet_ops *ops, void *arg, struct inlet **ret, struct err *err) {
    struct inlet *i = calloc(1, sizeof *i);
    int r;

    if (!i) {
        closep(&fd);
        return err_oom(err);
    }
    *i = (struct inlet){.gate = g, .ops = ops, .arg = arg, .fd = fd, .watch = WATCH_INIT};
    r = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 ? -errno : 0;
    r = r < 0 ? r : watch_start(g->hub, &i->watch, fd, EPOLLIN, inlet_ready, i);
    if (r < 0) {
        inlet_free(i);
        return err_sys(err, r, "listen on a socket inside the sandbox");
    }
    *ret = i;
    return 0;
}

void inlet_free(struct inlet *i) {
    if (!i)
        return;
    while (i->clients)
        client_free(i->clients);
    watch_stop(i->gate->hub, &i->watch);
    deadline_done(&i->pause);
    closep(&i->fd);
    free(i);
}
