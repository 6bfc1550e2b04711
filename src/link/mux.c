/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a link, and its loop. */
#include "link/mux.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "link/mux_priv.h"
#include "os/fd.h"

enum { POLL_IN, POLL_OUT, POLL_CHANS, POLL_ALL = POLL_CHANS + 2 * LINK_CHANNELS + LINK_EXTRA_FDS };

static uint64_t now_ms(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Parts of one mapping; pages that are never used are never taken. Numbers, because there is no mapping yet when its size is found. */
static void *part_of(uintptr_t *at, size_t size) {
    void *p = (void *)*at; /* NOLINT(performance-no-int-to-ptr) */

    *at += (size + 63) & ~(size_t)63;
    return p;
}

static void divide_memory(struct mux *m, uintptr_t at) {
    m->chans = part_of(&at, LINK_CHANNELS * sizeof *m->chans);
    m->live = part_of(&at, LINK_CHANNELS * sizeof *m->live);
    m->next = part_of(&at, MUX_BLOCKS * sizeof *m->next);
    m->polled = part_of(&at, POLL_ALL * sizeof *m->polled);
    m->polled_chan = part_of(&at, POLL_ALL * sizeof *m->polled_chan);
    m->in_buf = part_of(&at, LINK_IN);
    m->out_buf = part_of(&at, LINK_OUT);
    m->messages = part_of(&at, LINK_CONTROL_WINDOW);
    m->blocks = part_of(&at, LINK_BYTES_MAX);
    m->memory_size = at - (uintptr_t)m->memory;
}

int mux_init(struct mux *m, enum link_role role, int in, int out, const struct mux_ops *ops, void *arg) {
    *m = (struct mux){.role = role,
                      .in = in,
                      .out = out,
                      .ops = ops,
                      .arg = arg,
                      .control_credit = LINK_CONTROL_WINDOW,
                      .control_window = LINK_CONTROL_WINDOW,
                      .heard_ms = now_ms()};
    divide_memory(m, 0);
    m->memory = mmap(NULL, m->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->memory == MAP_FAILED) {
        m->memory = NULL;
        return -errno;
    }
    divide_memory(m, (uintptr_t)m->memory);
    for (size_t i = 0; i < MUX_BLOCKS; i++)
        m->next[i] = (uint16_t)(i + 1 < MUX_BLOCKS ? i + 1 : MUX_NONE);
    mux_hello(m);
    return 0;
}

void mux_done(struct mux *m) {
    while (m->memory && m->n_live)
        chan_free(m, &m->chans[m->live[0]]);
    if (m->memory)
        munmap(m->memory, m->memory_size);
    m->memory = NULL;
}

int mux_fail(struct mux *m, int r, const char *why) {
    if (m->error)
        return r;
    m->error = r;
    snprintf(m->why, sizeof m->why, "%s", why);
    if (r == -EPROTO || r == -EPROTONOSUPPORT) { /* a last word, if it fits */
        mux_bye(m, why);
        mux_flush(m);
    }
    return r;
}

/* -- waiting --------------------------------------------------------------------------------------------------------------- */

static size_t want_chan(struct mux *m, struct chan *c, size_t n) {
    short in = chan_reads(c) && m->out_len == 0 && m->greeted && !m->deaf ? POLLIN : 0,
          out = c->queued && c->wfd >= 0 ? POLLOUT : 0;

    c->readable = c->writable = c->hung = false;
    if (in) {
        m->polled_chan[n] = c->id;
        m->polled[n++] = (struct pollfd){.fd = c->rfd, .events = (short)(in | (c->rfd == c->wfd ? out : 0))};
    }
    if (out && !(in && c->rfd == c->wfd)) {
        m->polled_chan[n] = c->id;
        m->polled[n++] = (struct pollfd){.fd = c->wfd, .events = out};
    }
    return n;
}

static size_t want_all(struct mux *m) {
    size_t n = POLL_CHANS;

    m->polled[POLL_IN] = (struct pollfd){.fd = m->deaf ? -1 : m->in, .events = POLLIN};
    m->polled[POLL_OUT] = (struct pollfd){.fd = m->out_len && !m->deaf ? m->out : -1, .events = POLLOUT};
    for (size_t i = 0; i < m->n_live; i++)
        n = want_chan(m, &m->chans[m->live[i]], n);
    return n;
}

static void note_chans(struct mux *m, size_t n) {
    for (size_t i = POLL_CHANS; i < n; i++) {
        struct chan *c = &m->chans[m->polled_chan[i]];
        short got = m->polled[i].revents;

        c->readable |= (m->polled[i].events & POLLIN) && (got & (POLLIN | POLLHUP | POLLERR | POLLNVAL));
        c->writable |= (m->polled[i].events & POLLOUT) && (got & (POLLOUT | POLLHUP | POLLERR | POLLNVAL));
        c->hung |= (got & POLLHUP) != 0;
    }
}

static int time_left(struct mux *m, uint64_t now, int owner_ms) {
    uint64_t silent = now - m->heard_ms, limit = m->pinged ? LINK_DEAD_MS : LINK_PING_MS;
    int ms = silent >= limit ? 0 : (int)(limit - silent);

    if (m->deaf)
        ms = -1;
    return owner_ms >= 0 && (ms < 0 || owner_ms < ms) ? owner_ms : ms;
}

/* Has the other end anything to say? If not, it is asked; if it does not answer, it is dead. */
static int watch_peer(struct mux *m, uint64_t now) {
    if (m->deaf)
        return 0;
    if (m->pinged && now - m->heard_ms >= LINK_DEAD_MS)
        return mux_fail(m, -ETIMEDOUT, "the other end does not answer");
    if (!m->pinged && now - m->heard_ms >= LINK_PING_MS)
        m->pinged = m->ping_due = true;
    return 0;
}

static int receive(struct mux *m, uint64_t now) {
    ssize_t n = read(m->in, m->in_buf + m->in_len, LINK_IN - m->in_len);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return mux_fail(m, n < 0 && errno != ECONNRESET ? -errno : -ECONNRESET,
                        m->in_len || m->data_left ? "the link was cut in the middle of a frame" : "the other end is gone");
    m->heard_ms = now;
    m->pinged = false;
    m->in_len += (size_t)n;
    return mux_parse(m);
}

static void drain_chans(struct mux *m) {
    for (size_t i = 0; i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[i]];

        if (c->writable)
            chan_drain(m, c);
    }
}

/* A small request passes both ends twice: most of its time would be that of falling asleep and of being woken. */
static int wait_all(struct mux *m, size_t n, int ms) {
    int r = 0;

    if (ms != 0 && spin_begin(&m->spin))
        do
            r = poll(m->polled, n, 0);
        while (spin_more(&m->spin, r != 0));
    return r ? r : poll(m->polled, n, ms);
}

int mux_turn(struct mux *m) {
    int ms = -1, r = 0;
    size_t n, extra;
    uint64_t now;

    if (m->error && !m->deaf)
        return m->error;
    n = want_all(m);
    extra = m->ops->want ? m->ops->want(m->arg, m->polled + n, &ms) : 0;
    if (wait_all(m, n + extra, time_left(m, now_ms(), ms)) < 0 && errno != EINTR)
        return mux_fail(m, -errno, "the link cannot be waited for");
    now = now_ms();
    note_chans(m, n);
    if (m->polled[POLL_IN].revents)
        r = receive(m, now);
    if (r == 0 && m->ops->ready)
        m->ops->ready(m->arg, m->polled + n, extra);
    r = r < 0 ? r : m->error && !m->deaf ? m->error : watch_peer(m, now);
    if (r < 0)
        return r;
    drain_chans(m);
    r = mux_retry(m);
    if (r < 0 || m->deaf)
        return r;
    mux_flush(m);
    for (bool made = true; made && !m->out_len;) { /* until nothing is left to be said, or there is no room for it */
        mux_fill(m);
        made = m->out_len > 0;
        mux_flush(m);
    }
    return m->error;
}
