/* SPDX-License-Identifier: Apache-2.0 */
/* Ends of jobs that wait for their output. */
#include "link/late.h"

#include <signal.h>
#include <sys/ioctl.h>

#include "os/clock.h"

/* Bytes that have to be passed on before: at the far end what is in the pipe, at the near end what has come. */
static uint64_t bytes_until(const struct mux *m, const struct chan *c) {
    int pending = 0;

    if (m->role == LINK_NEAR)
        return c->received + c->queued;
    return c->rfd >= 0 && ioctl(c->rfd, FIONREAD, &pending) == 0 && pending > 0 ? c->sent + (uint64_t)pending : c->sent;
}

static bool is_passed_on(const struct mux *m, const struct chan *c) {
    if (m->role == LINK_NEAR)
        return c->received >= c->until || c->discards || c->wfd < 0;
    return c->sent >= c->until || c->rfd < 0;
}

static uint64_t passed(const struct mux *m, const struct chan *c) {
    return m->role == LINK_NEAR ? c->received : c->sent;
}

/* Its reader takes nothing: it may have the rest later, but no end waits for that. */
static bool is_stuck(const struct mux *m, struct chan *c) {
    uint64_t now = clock_ms();

    if (c->seen != passed(m, c)) {
        c->seen = passed(m, c);
        c->seen_ms = now;
    }
    if (!c->hurries || now - c->seen_ms < LATE_STUCK_MS)
        return false;
    c->until = 0;
    return true;
}

static struct chan *find_waiting(const struct late *l, struct mux *m, int job) {
    for (size_t i = 0; i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[i]];

        if (c->job == job && !is_passed_on(m, c) && !l->msg[c->id].type)
            return c;
    }
    return NULL;
}

static void wait_at(struct late *l, const struct mux *m, struct chan *c, const struct init_msg *msg) {
    c->seen = passed(m, c);
    c->seen_ms = clock_ms();
    l->msg[c->id] = *msg;
    l->n++;
    c->awaited = true;
}

static bool is_ending(int sig) {
    return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT || sig == SIGTERM || sig == SIGKILL;
}

void late_signal(struct mux *m, const struct init_msg *msg) {
    bool all = msg->type == INIT_MSG_ALL;

    if ((!all && msg->type != INIT_MSG_SIGNAL) || !is_ending(msg->value))
        return;
    for (size_t i = 0; i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[i]];

        c->hurries |= c->job && (all || c->job == msg->job);
    }
}

bool late_park(struct late *l, struct mux *m, const struct init_msg *msg) {
    struct chan *c;

    if (msg->type != INIT_MSG_EXITED || msg->job == 0)
        return false;
    for (size_t i = 0; i < m->n_live; i++) {
        c = &m->chans[m->live[i]];
        if (c->job == msg->job)
            c->until = bytes_until(m, c);
    }
    c = find_waiting(l, m, msg->job);
    if (c)
        wait_at(l, m, c, msg);
    return c != NULL;
}

struct chan *late_due(struct late *l, struct mux *m) {
    for (size_t i = 0; l->n && i < m->n_live; i++) {
        struct chan *c = &m->chans[m->live[i]], *next;

        if (!l->msg[c->id].type || (!is_passed_on(m, c) && !is_stuck(m, c)))
            continue;
        next = find_waiting(l, m, l->msg[c->id].job);
        if (!next)
            return c;
        wait_at(l, m, next, &l->msg[c->id]);
        late_done(l, c);
    }
    return NULL;
}

void late_done(struct late *l, struct chan *c) {
    l->msg[c->id].type = 0;
    l->n--;
    c->awaited = false;
}
