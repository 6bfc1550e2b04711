/* SPDX-License-Identifier: Apache-2.0 */
/* One epoll set for all sockets of flows, and deadlines. */
#include "gateway/epoll_set.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"

enum {
    BATCH = 64,
    ROUNDS = 4 /* batches before the rest of the loop has its turn */
};

/* Of one descriptor, where low water is made up. */
struct hub_low {
    struct watch *watch; /* NULL: none */
    int bytes;           /* 0, 1: any */
};

struct hub {
    int epoll;
    struct hub_low *low; /* by descriptor; NULL: the kernel does it */
    size_t n_low;
    uv_poll_t poll;
    struct epoll_event batch[BATCH]; /* what was reported and not handled yet: [at, n) */
    int at, n;
};

static struct hub_low *low_of(const struct hub *h, int fd) {
    return h->low && fd >= 0 && (size_t)fd < h->n_low ? &h->low[fd] : NULL;
}

/* Edge-triggered, so that bytes that are too few are reported once. */
static uint32_t events_for(const struct hub *h, int fd, uint32_t events) {
    const struct hub_low *l = low_of(h, fd);

    return l && l->bytes > 1 && events & EPOLLIN ? events | EPOLLET | EPOLLRDHUP : events;
}

/* What is worth a call of the handler. */
static uint32_t events_of(const struct hub *h, const struct watch *w, uint32_t events) {
    const struct hub_low *l = low_of(h, w->fd);
    int have = 0;

    if (!l || l->bytes <= 1 || !(events & EPOLLIN))
        return events;
    if (!(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) && ioctl(w->fd, FIONREAD, &have) == 0 && have < l->bytes)
        return events & ~(uint32_t)EPOLLIN;
    return events & ~(uint32_t)EPOLLRDHUP;
}

static void hub_turn(uv_poll_t *poll, int status UNUSED, int events UNUSED) {
    struct hub *h = poll->data;

    for (int round = 0; round < ROUNDS; round++) {
        h->n = epoll_wait(h->epoll, h->batch, BATCH, 0);
        for (h->at = 0; h->at < h->n;) {
            struct epoll_event *e = &h->batch[h->at++];
            struct watch *w = e->data.ptr;

            uint32_t got = w ? events_of(h, w, e->events) : 0;

            if (got)
                w->fn(w->arg, got);
        }
        if (h->n < BATCH)
            return;
    }
}

int hub_new(uv_loop_t *loop, struct hub **ret, struct err *err) {
    struct hub *h = calloc(1, sizeof *h);
    int r;

    if (!h)
        return err_oom(err);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    r = h->epoll < 0 ? -errno : uv_poll_init(loop, &h->poll, h->epoll);
    if (r < 0) {
        closep(&h->epoll);
        free(h);
        return err_sys(err, r, "make a set of descriptors to wait for");
    }
    h->poll.data = h;
    uv_poll_start(&h->poll, UV_READABLE, hub_turn);
    *ret = h;
    return 0;
}

static void hub_closed(uv_handle_t *handle) {
    struct hub *h = handle->data;

    closep(&h->epoll);
    free(h->low);
    free(h);
}

void hub_free(struct hub *h) {
    if (h)
        uv_close((uv_handle_t *)&h->poll, hub_closed);
}

int hub_emulate(struct hub *h, size_t files) {
    if (h->low)
        return 0;
    h->low = calloc(files, sizeof *h->low);
    h->n_low = h->low ? files : 0;
    return h->low ? 0 : -ENOMEM;
}

void hub_low_water(struct hub *h, int fd, int bytes) {
    struct hub_low *l = low_of(h, fd);
    struct epoll_event e = {0};

    if (!l) {
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
        return;
    }
    l->bytes = bytes;
    if (!l->watch)
        return;
    e.events = events_for(h, fd, l->watch->events);
    e.data.ptr = l->watch;
    epoll_ctl(h->epoll, EPOLL_CTL_MOD, fd, &e);
}

int watch_start(struct hub *h, struct watch *w, int fd, uint32_t events, watch_fn *fn, void *arg) {
    struct epoll_event e = {.events = events_for(h, fd, events), .data.ptr = w};
    struct hub_low *l = low_of(h, fd);

    if (epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        return -errno;
    *w = (struct watch){.fd = fd, .events = events, .fn = fn, .arg = arg};
    if (l)
        l->watch = w;
    return 0;
}

int watch_set(struct hub *h, struct watch *w, uint32_t events) {
    struct epoll_event e = {.events = events_for(h, w->fd, events), .data.ptr = w};

    if (w->fd < 0 || w->events == events)
        return 0;
    if (epoll_ctl(h->epoll, EPOLL_CTL_MOD, w->fd, &e) < 0)
        return -errno;
    w->events = events;
    return 0;
}

void watch_stop(struct hub *h, struct watch *w) {
    struct epoll_event unused = {0};

    if (w->fd < 0)
        return;
    epoll_ctl(h->epoll, EPOLL_CTL_DEL, w->fd, &unused);
    watch_forget(h, w);
}

void watch_forget(struct hub *h, struct watch *w) {
    for (int i = h->at; i < h->n; i++)
        if (h->batch[i].data.ptr == w)
            h->batch[i].data.ptr = NULL;
    if (low_of(h, w->fd))
        low_of(h, w->fd)->watch = NULL;
    w->fd = -1;
}

struct deadline_handle {
    uv_timer_t timer;
    deadline_fn *fn;
    void *arg;
};

static void deadline_passed(uv_timer_t *timer) {
    struct deadline_handle *handle = timer->data;

    handle->fn(handle->arg);
}

int deadline_prepare(uv_loop_t *loop, struct deadline *d) {
    struct deadline_handle *handle = d->handle ? d->handle : calloc(1, sizeof *handle);

    if (!handle)
        return -ENOMEM;
    if (!d->handle)
        uv_timer_init(loop, &handle->timer);
    handle->timer.data = handle;
    d->handle = handle;
    return 0;
}

int deadline_set(uv_loop_t *loop, struct deadline *d, uint64_t ms, deadline_fn *fn, void *arg) {
    if (deadline_prepare(loop, d) < 0)
        return -ENOMEM;
    d->handle->fn = fn;
    d->handle->arg = arg;
    return uv_timer_start(&d->handle->timer, deadline_passed, ms, 0);
}

void deadline_stop(struct deadline *d) {
    if (d->handle)
        uv_timer_stop(&d->handle->timer);
}

static void deadline_closed(uv_handle_t *handle) {
    free(handle->data);
}

void deadline_done(struct deadline *d) {
    struct deadline_handle *handle = TAKE_PTR(d->handle);

    if (handle)
        uv_close((uv_handle_t *)&handle->timer, deadline_closed);
}
