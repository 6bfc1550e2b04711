/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a batch: starts tasks as others end, and ends them when the user interrupts or one fails. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "ops/batch/batch.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/sigfd.h"
#include "supervisor/session/run.h"

enum { READ_STEP = 64 * 1024 };

struct batch_loop {
    struct batch *b;
    const struct batch_watch *watch;
    int signals;
    sigset_t old;
    size_t running;
    struct batch_task *polled[BATCH_JOBS_MAX]; /* the tasks of the sources' slots, in their order */
    bool stopping;                             /* nothing more is started */
    int interrupts;
};

static int open_signals(struct batch_loop *l, struct err *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGWINCH, SIGPIPE};

    signal(SIGCHLD, SIG_DFL); /* our parent may have ignored it, and then no child can be waited for */
    l->signals = sigfd_open(wanted, ARRAY_LEN(wanted), &l->old);
    return l->signals < 0 ? err_sys(err, l->signals, "read signals") : 0;
}

/* A task that is not yet in its loop gets the order when it is. */
static void order_all(struct batch_loop *l, char order) {
    for (size_t i = 0; i < l->b->n; i++)
        if (l->b->v[i].link >= 0)
            send(l->b->v[i].link, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void kill_all(struct batch_loop *l) {
    for (size_t i = 0; i < l->b->n; i++)
        if (l->b->v[i].state == BATCH_RUNNING)
            kill(l->b->v[i].pid, SIGKILL); /* not yet waited for: the number is still its own */
}

static void interrupt_batch(struct batch_loop *l) {
    l->stopping = true;
    switch (++l->interrupts) {
    case 1:
        notice_say(&l->watch->notice, "ending %zu running, starting no more; once more kills them", l->running);
        order_all(l, RUN_PARENT_END);
        break;
    case 2:
        notice_say(&l->watch->notice, "killing %zu running", l->running);
        order_all(l, RUN_PARENT_KILL);
        break;
    default:
        kill_all(l);
    }
}

static void finish_failed_task(struct batch_loop *l, struct batch_task *t) {
    bool again = !l->stopping && t->attempts <= l->b->opts.retries;
    char time[24];

    format_duration(t->result.duration_ms, time);
    notice_say(&l->watch->notice, "%s: failed with exit status %d after %s%s", t->name, t->result.status, time,
               again ? ", trying again" : "");
    if (again && t->result.run[0])
        strv_add(&t->earlier, t->result.run);
    t->state = again ? BATCH_WAITING : BATCH_FAILED;
    if (again || l->stopping || !l->b->opts.stop_on_failure)
        return;
    l->stopping = true;
    if (l->running)
        notice_say(&l->watch->notice, "--stop-on-failure: ending %zu running", l->running);
    order_all(l, RUN_PARENT_END);
}

static void finish_task(struct batch_loop *l, struct batch_task *t) {
    char time[24];

    l->running--;
    if (t->result.status) {
        finish_failed_task(l, t);
        return;
    }
    t->state = BATCH_OK;
    format_duration(t->result.duration_ms, time);
    if (!l->watch->live)
        notice_say(&l->watch->notice, "%s: done after %s", t->name, time);
}

static void read_link(struct batch_task *t) {
    CLEANUP(freep) char *part = malloc(READ_STEP);
    ssize_t n = 1;

    while (part && t->link >= 0 && n > 0) {
        n = recv(t->link, part, READ_STEP, MSG_DONTWAIT);
        if (n > 0)
            buf_add(&t->report, part, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            closep(&t->link);
    }
}

static void reap_tasks(struct batch_loop *l) {
    for (size_t i = 0; i < l->b->n && l->running; i++) {
        struct batch_task *t = &l->b->v[i];
        int status;

        if (t->state != BATCH_RUNNING || waitpid(t->pid, &status, WNOHANG) != t->pid)
            continue;
        read_link(t);
        closep(&t->link);
        batch_take_report(t, status, clock_ms());
        finish_task(l, t);
    }
}

static int on_signals(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    struct batch_loop *l = arg;
    struct signalfd_siginfo info;

    while (sigfd_next(l->signals, &info))
        switch (info.ssi_signo) {
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
            interrupt_batch(l);
            break;
        case SIGWINCH:
            l->watch->resized(l->watch->arg);
            break;
        }
    reap_tasks(l);
    return 0;
}

/* What cannot be started is as if it had failed; the others go on. */
static void start_task(struct batch_loop *l, struct batch_task *t) {
    struct err err = {0};

    t->attempts++;
    t->begun_ms = clock_ms();
    t->state = BATCH_RUNNING;
    l->running++;
    if (batch_spawn(l->b, t, &err) >= 0) {
        if (!l->watch->live)
            notice_say(&l->watch->notice, "%s: started%s", t->name, t->attempts > 1 ? " again" : "");
        return;
    }
    notice_say(&l->watch->notice, "%s: %s", t->name, err.msg);
    batch_take_report(t, EXIT_SANDBOX << 8, clock_ms());
    finish_task(l, t);
}

static struct batch_task *next_waiting(struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].state == BATCH_WAITING)
            return &b->v[i];
    return NULL;
}

/* -- the loop ------------------------------------------------------------------------------------------------------------ */

static void want_links(struct evloop *e, void *arg) {
    struct batch_loop *l = arg;
    size_t n = 0;

    evloop_wake_in(e, l->watch->draw(l->b, l->interrupts > 0, l->watch->arg));
    for (size_t i = 0; i < l->b->n && n < ARRAY_LEN(l->polled); i++)
        if (l->b->v[i].link >= 0) {
            l->polled[n++] = &l->b->v[i];
            evloop_want(e, l->b->v[i].link, POLLIN);
        }
}

static int on_links(void *arg, const struct pollfd *fds, size_t n) {
    struct batch_loop *l = arg;

    for (size_t i = 0; i < n; i++)
        if (fds[i].revents)
            read_link(l->polled[i]);
    return 0;
}

static int turn_until_done(struct batch_loop *l, struct err *err) {
    struct evloop e = EVLOOP_INIT;
    struct evloop_source links = {.prepare = want_links, .ready = on_links, .arg = l},
                         signals = {.fd = l->signals, .events = POLLIN, .ready = on_signals, .arg = l};
    int r = evloop_add(&e, &links);

    r = r < 0 ? r : evloop_add(&e, &signals);
    while (r >= 0) {
        struct batch_task *t;

        while (!l->stopping && l->running < l->b->opts.jobs && (t = next_waiting(l->b)))
            start_task(l, t);
        if (!l->running)
            break;
        r = evloop_turn(&e);
    }
    evloop_done(&e);
    return r < 0 ? err_sys(err, r, "wait for tasks") : 0;
}

int batch_run(struct batch *b, const struct batch_watch *w, struct err *err) {
    struct batch_loop l = {.b = b, .watch = w, .signals = -1};
    int r = open_signals(&l, err);

    if (r < 0)
        return r;
    r = turn_until_done(&l, err);
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].state == BATCH_WAITING)
            b->v[i].state = b->v[i].attempts ? BATCH_FAILED : BATCH_SKIPPED;
    closep(&l.signals);
    sigprocmask(SIG_SETMASK, &l.old, NULL);
    return r < 0 ? r : l.interrupts;
}
