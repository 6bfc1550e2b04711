/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop over poll(2): every turn, all sources say what they wait for, the loop waits once, and those concerned are called in the
 * order in which they were added. What is waited for may differ from turn to turn, as it does for most of ours; nothing is allocated
 * per turn. (epoll would save nothing: there are a dozen descriptors, whose events change all the time, and the jails do not have it.)
 *
 *     struct evloop l = EVLOOP_INIT;
 *     struct evloop_source listener = {.fd = fd, .events = POLLIN, .ready = on_listener, .arg = server},
 *                          clients = {.prepare = want_clients, .ready = on_clients, .arg = server};
 *     evloop_add(&l, &listener); ...
 *     while (r == 0 && !over)
 *         r = evloop_turn(&l);
 *     evloop_done(&l);
 */
#pragma once

#include <poll.h>

#include "base/macros.h"

struct evloop;

/* Belongs to the caller, who changes its fields at any time; zero in what is not needed. */
struct evloop_source {
    /* Before each wait: calls evloop_want(), evloop_slots(), evloop_wake_at() and evloop_wake_in(). Without it the source waits for... */
    void (*prepare)(struct evloop *l, void *arg);
    /* ...this; fd -1 or events 0: not now. */
    int fd;
    short events;
    /* Also wakes it: a moment of clock_ms(), for every source; 0: none. It is not reset: set it to 0 or later when it has come. */
    uint64_t at_ms;
    /* After the wait, if one of its descriptors or its moment came. fds: what it wanted, in that order; valid until the turn ends.
     * A negative result ends the turn. */
    int (*ready)(void *arg, const struct pollfd *fds, size_t n);
    bool each_turn; /* called after every wait, whatever came */
    void *arg;

    /* the loop's own */
    size_t first, n;
    uint64_t wake_ms;
};

struct evloop {
    struct evloop_source **sources;
    size_t n_sources;
    struct pollfd *fds;
    size_t n_fds, cap_fds;
    struct evloop_source *preparing;
    uint64_t now_ms;
    int failed; /* -errno of this turn */
};
#define EVLOOP_INIT \
    { .n_fds = 0 }

void evloop_done(struct evloop *l); /* the sources, and their descriptors, are not touched */

/* Not from `prepare`. 0 or -ENOMEM; what is added by a `ready` counts from the next turn on. */
int evloop_add(struct evloop *l, struct evloop_source *s);
int evloop_add_all(struct evloop *l, struct evloop_source *v, size_t n);

/* -- in prepare --------------------------------------------------------------------------------------------------------- */

/* -1 is no descriptor: its slot stays empty. */
void evloop_want(struct evloop *l, int fd, short events);
/* n slots at once, empty (fd -1), to be filled in now: only valid until the next call. NULL: out of memory, which ends the loop. */
struct pollfd *evloop_slots(struct evloop *l, size_t n);
void evloop_give_back(struct evloop *l, size_t n); /* the last n of them, which are not needed after all */
/* The source is called at this moment of clock_ms() at the latest; 0: no moment. */
void evloop_wake_at(struct evloop *l, uint64_t at_ms);
/* The same as a timeout for poll(2), from now on; -1: none. */
void evloop_wake_in(struct evloop *l, int timeout_ms);

/* -- running ------------------------------------------------------------------------------------------------------------ */

int evloop_turn(struct evloop *l); /* 0 or -errno */
