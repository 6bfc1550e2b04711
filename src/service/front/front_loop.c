/* SPDX-License-Identifier: Apache-2.0 */
/* One epoll set. */
#include "service/front/front_loop.h"

#include <errno.h>

int front_loop_init(struct front_loop *l) {
    l->fd = epoll_create1(EPOLL_CLOEXEC);
    l->n_batch = 0;
    return l->fd < 0 ? -errno : 0;
}

int front_watch_start(struct front_loop *l, struct front_watch *w, int fd, uint32_t events, front_watch_fn *fn, void *arg) {
    struct epoll_event e = {.events = events, .data.ptr = w};

    if (w->on)
        front_watch_stop(l, w);
    if (epoll_ctl(l->fd, EPOLL_CTL_ADD, fd, &e) < 0)
        return -errno;
    *w = (struct front_watch){true, fd, fn, arg};
    return 0;
}

int front_watch_set(struct front_loop *l, struct front_watch *w, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = w};

    return epoll_ctl(l->fd, EPOLL_CTL_MOD, w->fd, &e) < 0 ? -errno : 0;
}

void front_watch_stop(struct front_loop *l, struct front_watch *w) {
    if (!w->on)
        return;
    w->on = false;
    epoll_ctl(l->fd, EPOLL_CTL_DEL, w->fd, NULL);
    for (int i = 0; i < l->n_batch; i++)
        if (l->batch[i].data.ptr == w)
            l->batch[i].data.ptr = NULL;
}

int front_loop_turn(struct front_loop *l, int timeout_ms) {
    int n = epoll_wait(l->fd, l->batch, FRONT_BATCH, timeout_ms);

    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    l->n_batch = n;
    for (int i = 0; i < n; i++) {
        struct front_watch *w = l->batch[i].data.ptr;

        if (w)
            w->fn(w->arg, l->batch[i].events);
    }
    l->n_batch = 0;
    return 0;
}
