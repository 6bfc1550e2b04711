/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors and deadlines of connections, in the loop.
 *
 * uv_poll costs five system calls per descriptor (it tries each one out before it takes it), which
 * short connections feel. So all sockets of flows are in one epoll set of ours. libuv's own set is one descriptor in it: libuv gets
 * a turn when it has something to do, and a connection wakes the gate by one call, not by one for each set.
 * Level-triggered: a handler may stop early to be fair to others, and is called again.
 */
#pragma once

#include <sys/epoll.h>
#include <uv.h>

#include "base/macros.h"

struct err;
struct hub;

typedef void watch_fn(void *arg, uint32_t events);

struct watch {
    int fd; /* -1: not watched. Not owned */
    uint32_t events;
    watch_fn *fn;
    void *arg;
};
#define WATCH_INIT \
    { .fd = -1 }

/* Takes loop->data. */
int hub_new(uv_loop_t *loop, struct hub **ret, struct err *err);
void hub_free(struct hub *h); /* the loop still has to close the timers */
/* Calls the handlers of what is ready, of the loop too. */
enum hub_wait {
    HUB_LOOK,  /* only what is ready now */
    HUB_SLEEP, /* waits until something is */
    HUB_SPIN   /* the same, but looks for some microseconds before it sleeps */
};
void hub_turn(struct hub *h, enum hub_wait wait);

/* EPOLLERR and EPOLLHUP are always reported. */
/*
 * SO_RCVLOWAT: a connection is not readable before it has so many bytes, or no more will come. Unix sockets, as which connections are delivered
 * (net/delivery.h), have no such thing for poll(2); hub_emulate() makes it up from then on, for descriptors below `files`.
 */
int hub_emulate(struct hub *h, size_t files);
void hub_low_water(struct hub *h, int fd, int bytes);

int watch_start(struct hub *h, struct watch *w, int fd, uint32_t events, watch_fn *fn, void *arg);
int watch_set(struct hub *h, struct watch *w, uint32_t events);
/* No handler is called for it any more, not even for what was reported already. The descriptor stays open. */
void watch_stop(struct hub *h, struct watch *w);
/* The same for a descriptor that the caller closes now and that has no copy: the kernel then forgets it by itself. */
void watch_forget(struct hub *h, struct watch *w);

/* Once, in this turn if that is not over, else in the next one, never before this returns; costs no system call. All zero: not set. */
typedef void soon_fn(void *arg);
struct soon {
    struct soon *next, **at;
    uint32_t turn;
    soon_fn *fn;
    void *arg;
};
void soon_set(struct hub *h, struct soon *s, soon_fn *fn, void *arg);
void soon_cancel(struct hub *h, struct soon *s);

/* A deadline. Its timer does not belong to the owner, who can be freed at once. */
typedef void deadline_fn(void *arg);
struct deadline {
    struct deadline_handle *handle; /* NULL: none was ever set */
};
int deadline_prepare(uv_loop_t *loop, struct deadline *d);                                      /* setting it then cannot fail */
int deadline_set(uv_loop_t *loop, struct deadline *d, uint64_t ms, deadline_fn *fn, void *arg); /* replaces an older one */
void deadline_stop(struct deadline *d);
void deadline_done(struct deadline *d);
