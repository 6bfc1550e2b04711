/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of bawn-front: one epoll set, level-triggered, for thousands of descriptors (os/evloop.h asks every source every turn). libmicrohttpd has a
 * set of its own, which is one descriptor here.
 */
#pragma once

#include <sys/epoll.h>

#include "base/macros.h"

enum { FRONT_BATCH = 256 };

typedef void front_watch_fn(void *arg, uint32_t events);

struct front_watch {
    bool on;
    int fd; /* not owned */
    front_watch_fn *fn;
    void *arg;
};

struct front_loop {
    int fd;
    struct epoll_event batch[FRONT_BATCH];
    int n_batch;
};

int front_loop_init(struct front_loop *l); /* -errno */
/* -errno; -EPERM: a regular file, which is always ready. */
int front_watch_start(struct front_loop *l, struct front_watch *w, int fd, uint32_t events, front_watch_fn *fn, void *arg);
int front_watch_set(struct front_loop *l, struct front_watch *w, uint32_t events);
/* Its function is not called any more, not even for what has come. Before its descriptor is closed. */
void front_watch_stop(struct front_loop *l, struct front_watch *w);
int front_loop_turn(struct front_loop *l, int timeout_ms); /* -errno */
