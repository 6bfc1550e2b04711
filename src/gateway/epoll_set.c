/* SPDX-License-Identifier: Apache-2.0 */
/* One epoll set for all sockets of flows, and deadlines. */
#include "gateway/epoll_set.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/spin.h"

enum { BATCH = 64, SPARE_MAX = 256 };

/* Of one descriptor, where low water is made up. */
struct hub_low {
    struct watch *watch; /* NULL: none */
    int bytes;           /* 0, 1: any */
};

struct deadline_handle {
    uv_timer_t timer;
    deadline_fn *fn;
    void *arg; /* of a spare one: the next */
};

/* Timers that are not in use: closing one costs a turn of libuv's loop. */
struct deadline_spare {
    struct deadline_handle *first;
    size_t n;
};

struct hub {
    uv_loop_t *loop;
    int epoll;
    struct deadline_spare spare; /* loop->data points here */
    struct hub_low *low;         /* by descriptor; NULL: the kernel does it */
    size_t n_low;
    struct soon *first, **last; /* what waits for the next turn */
    uint32_t turn;
    struct spin spin;
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

/* True: libuv has something to do. */
static bool handle_batch(struct hub *h) {
    bool inner = false;

    for (h->at = 0; h->at < h->n;) {
        struct epoll_event *e = &h->batch[h->at++];
        struct watch *w = e->data.ptr;
        uint32_t got;

        if (e->data.ptr == h) {
            inner = true;
            continue;
        }
        got = w ? events_of(h, w, e->events) : 0;
        if (got)
            w->fn(w->arg, got);
    }
    return inner;
}

/* What is put there by one of these waits for the next turn. */
static void run_soon(struct hub *h) {
    uint32_t turn = h->turn++;

    while (h->first && h->first->turn == turn) {
        struct soon *s = h->first;

        soon_cancel(h, s);
        s->fn(s->arg);
    }
}

void soon_set(struct hub *h, struct soon *s, soon_fn *fn, void *arg) {
    if (s->at)
        soon_cancel(h, s);
    *s = (struct soon){.at = h->last, .turn = h->turn, .fn = fn, .arg = arg};
    *h->last = s;
    h->last = &s->next;
}

void soon_cancel(struct hub *h, struct soon *s) {
    if (!s->at)
        return;
    *s->at = s->next;
    *(s->next ? &s->next->at : &h->last) = s->at;
    s->at = NULL;
}

static int look(struct hub *h, int ms) {
    return epoll_wait(h->epoll, h->batch, BATCH, ms);
}

static int look_for_a_while(struct hub *h) {
    int n = 0;

    if (spin_begin(&h->spin))
        do
            n = look(h, 0);
        while (spin_more(&h->spin, n != 0));
    return n;
}

/* uv_backend_timeout() is 0 where a timer is due, a handle has to be closed, or a descriptor of libuv's is new. */
void hub_turn(struct hub *h, enum hub_wait wait) {
    int ms = wait != HUB_LOOK && !h->first ? uv_backend_timeout(h->loop) : 0;

    h->n = wait == HUB_SPIN && ms != 0 ? look_for_a_while(h) : 0;
    if (h->n == 0)
        h->n = look(h, ms);
    uv_update_time(h->loop);
    if (handle_batch(h) || uv_backend_timeout(h->loop) == 0)
        uv_run(h->loop, UV_RUN_NOWAIT);
    run_soon(h);
}

int hub_new(uv_loop_t *loop, struct hub **ret, struct err *err) {
    struct hub *h = calloc(1, sizeof *h);
    struct epoll_event inner = {.events = EPOLLIN};
    int r = 0;

    if (!h)
        return err_oom(err);
    h->loop = loop;
    h->last = &h->first;
    inner.data.ptr = h;
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (h->epoll < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, uv_backend_fd(loop), &inner) < 0)
        r = -errno;
    if (r < 0) {
        closep(&h->epoll);
        free(h);
        return err_sys(err, r, "make a set of descriptors to wait for");
    }
    loop->data = &h->spare;
    *ret = h;
    return 0;
}

static void deadline_close(struct deadline_handle *handle);

void hub_free(struct hub *h) {
    if (!h)
        return;
    h->loop->data = NULL;
    for (struct deadline_handle *handle = h->spare.first, *next; handle; handle = next) {
        next = handle->arg;
        deadline_close(handle);
    }
    closep(&h->epoll);
    free(h->low);
    free(h);
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

static void deadline_passed(uv_timer_t *timer) {
    struct deadline_handle *handle = timer->data;

    handle->fn(handle->arg);
}

static struct deadline_handle *take_spare(uv_loop_t *loop) {
    struct deadline_spare *s = loop->data;
    struct deadline_handle *handle = s ? s->first : NULL;

    if (handle) {
        s->first = handle->arg;
        s->n--;
    }
    return handle;
}

static bool give_spare(struct deadline_handle *handle) {
    struct deadline_spare *s = handle->timer.loop->data;

    if (!s || s->n == SPARE_MAX)
        return false;
    uv_timer_stop(&handle->timer);
    handle->arg = s->first;
    s->first = handle;
    s->n++;
    return true;
}

int deadline_prepare(uv_loop_t *loop, struct deadline *d) {
    if (!d->handle)
        d->handle = take_spare(loop);
    if (d->handle)
        return 0;
    d->handle = calloc(1, sizeof *d->handle);
    if (!d->handle)
        return -ENOMEM;
    uv_timer_init(loop, &d->handle->timer);
    d->handle->timer.data = d->handle;
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

static void deadline_close(struct deadline_handle *handle) {
    uv_close((uv_handle_t *)&handle->timer, deadline_closed);
}

void deadline_done(struct deadline *d) {
    struct deadline_handle *handle = TAKE_PTR(d->handle);

    if (handle && !give_spare(handle))
        deadline_close(handle);
}
