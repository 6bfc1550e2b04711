/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: sources, one poll(2) per turn, and whom it concerns. */
#include "os/evloop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/vec.h"
#include "os/clock.h"

enum { FIRST_CAP = 16 };

void evloop_done(struct evloop *l) {
    free(l->sources);
    free(l->fds);
    *l = (struct evloop)EVLOOP_INIT;
}

int evloop_add(struct evloop *l, struct evloop_source *s) {
    return VEC_ADD(l->sources, l->n_sources, s);
}

int evloop_add_all(struct evloop *l, struct evloop_source *v, size_t n) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = evloop_add(l, &v[i]);
    return r;
}

/* -- before the wait ---------------------------------------------------------------------------------------------------- */

static bool make_slots(struct evloop *l, size_t n) {
    size_t cap = MAX_OF(l->n_fds + n, MAX_OF(2 * l->cap_fds, (size_t)FIRST_CAP));
    struct pollfd *grown = reallocarray(l->fds, cap, sizeof *grown);

    if (!grown) {
        l->failed = -ENOMEM;
        return false;
    }
    l->fds = grown;
    l->cap_fds = cap;
    return true;
}

struct pollfd *evloop_slots(struct evloop *l, size_t n) {
    struct pollfd *slots;

    if (l->n_fds + n > l->cap_fds && !make_slots(l, n))
        return NULL;
    slots = l->fds + l->n_fds;
    for (size_t i = 0; i < n; i++)
        slots[i] = (struct pollfd){.fd = -1};
    l->n_fds += n;
    return slots;
}

void evloop_give_back(struct evloop *l, size_t n) {
    l->n_fds -= n;
}

void evloop_want(struct evloop *l, int fd, short events) {
    if (l->n_fds < l->cap_fds || make_slots(l, 1))
        l->fds[l->n_fds++] = (struct pollfd){.fd = fd, .events = events};
}

void evloop_wake_at(struct evloop *l, uint64_t at_ms) {
    struct evloop_source *s = l->preparing;

    if (at_ms && (!s->wake_ms || at_ms < s->wake_ms))
        s->wake_ms = at_ms;
}

void evloop_wake_in(struct evloop *l, int timeout_ms) {
    if (timeout_ms >= 0)
        evloop_wake_at(l, l->now_ms + (unsigned)timeout_ms);
}

static void prepare_source(struct evloop *l, struct evloop_source *s) {
    size_t first = l->n_fds;

    s->wake_ms = 0;
    l->preparing = s;
    evloop_wake_at(l, s->at_ms);
    if (s->prepare)
        s->prepare(l, s->arg);
    else
        evloop_want(l, s->events ? s->fd : -1, s->events);
    s->first = first;
    s->n = l->n_fds - first;
}

/* Returns the timeout for poll(2). */
static int prepare_all(struct evloop *l) {
    uint64_t least = 0;

    l->n_fds = 0;
    l->failed = 0;
    l->now_ms = clock_ms();
    for (size_t i = 0; i < l->n_sources; i++) {
        const struct evloop_source *s = l->sources[i];

        prepare_source(l, l->sources[i]);
        if (s->wake_ms && (!least || s->wake_ms < least))
            least = s->wake_ms;
    }
    if (!least)
        return -1;
    return least <= l->now_ms ? 0 : (int)MIN_OF(least - l->now_ms, (uint64_t)INT_MAX);
}

/* -- after the wait ----------------------------------------------------------------------------------------------------- */

static bool concerns(const struct evloop *l, const struct evloop_source *s) {
    if (s->each_turn || (s->wake_ms && s->wake_ms <= l->now_ms))
        return true;
    for (size_t i = 0; i < s->n; i++)
        if (l->fds[s->first + i].revents)
            return true;
    return false;
}

/* n: as many as there were when all were prepared. */
static int call_ready(struct evloop *l, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct evloop_source *s = l->sources[i];
        int r = concerns(l, s) ? s->ready(s->arg, l->fds + s->first, s->n) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

int evloop_turn(struct evloop *l) {
    int timeout = prepare_all(l);
    size_t n = l->n_sources;

    if (l->failed < 0)
        return l->failed;
    if (poll(l->fds, l->n_fds, timeout) < 0 && errno != EINTR)
        return -errno;
    l->now_ms = clock_ms();
    return call_ready(l, n);
}
