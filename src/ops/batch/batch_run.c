/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of a batch: starts tasks as others end, and ends them when the user, or a failure, wants it. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run/run_options.h"
#include "ops/batch/batch.h"
#include "os/fd.h"
#include "supervisor/session/run.h"

enum { READ_STEP = 64 * 1024 };

struct loop_of {
    struct batch *b;
    struct batch_table table;
    int signals;
    sigset_t old;
    size_t running;
    bool stopping; /* nothing more is started */
    int interrupts;
};

static uint64_t now_ms(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int open_signals(struct loop_of *l, struct err *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGWINCH, SIGPIPE};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        sigaddset(&set, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &set, &l->old) < 0)
        return err_sys(err, -errno, "block signals");
    signal(SIGCHLD, SIG_DFL); /* whoever started us may have had it ignored, and then nobody can be waited for */
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return l->signals < 0 ? err_sys(err, -errno, "signalfd") : 0;
}

/* Politely, or at once. Who is not yet in its loop gets it when it is. */
static void tell_all(struct loop_of *l, char order) {
    for (size_t i = 0; i < l->b->n; i++)
        if (l->b->v[i].link >= 0)
            send(l->b->v[i].link, &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void kill_all(struct loop_of *l) {
    for (size_t i = 0; i < l->b->n; i++)
        if (l->b->v[i].state == BATCH_RUNNING)
            kill(l->b->v[i].pid, SIGKILL); /* not yet waited for: the number is still its own */
}

static void interrupt(struct loop_of *l) {
    l->stopping = true;
    switch (++l->interrupts) {
    case 1:
        batch_table_say(&l->table, "ending %zu running, starting no more; once more kills them", l->running);
        tell_all(l, RUN_PARENT_END);
        break;
    case 2:
        batch_table_say(&l->table, "killing %zu running", l->running);
        tell_all(l, RUN_PARENT_KILL);
        break;
    default:
        kill_all(l);
    }
}

static void finish_failed(struct loop_of *l, struct batch_task *t) {
    bool again = !l->stopping && t->attempts <= l->b->retries;
    char time[24];

    format_duration(t->result.duration_ms, time);
    batch_table_say(&l->table, "%s: failed with exit status %d after %s%s", t->name, t->result.status, time,
                    again ? ", trying again" : "");
    if (again && t->result.run[0])
        strv_add(&t->earlier, t->result.run);
    t->state = again ? BATCH_WAITING : BATCH_FAILED;
    if (again || l->stopping || !l->b->args->stop_on_failure)
        return;
    l->stopping = true;
    if (l->running)
        batch_table_say(&l->table, "--stop-on-failure: ending %zu running", l->running);
    tell_all(l, RUN_PARENT_END);
}

static void finish(struct loop_of *l, struct batch_task *t) {
    char time[24];

    l->running--;
    if (t->result.status) {
        finish_failed(l, t);
        return;
    }
    t->state = BATCH_OK;
    format_duration(t->result.duration_ms, time);
    if (!l->table.live)
        batch_table_say(&l->table, "%s: done after %s", t->name, time);
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

static void reap(struct loop_of *l) {
    for (size_t i = 0; i < l->b->n && l->running; i++) {
        struct batch_task *t = &l->b->v[i];
        int status;

        if (t->state != BATCH_RUNNING || waitpid(t->pid, &status, WNOHANG) != t->pid)
            continue;
        read_link(t);
        closep(&t->link);
        batch_take_report(t, status, now_ms());
        finish(l, t);
    }
}

static void on_signals(struct loop_of *l) {
    struct signalfd_siginfo info;

    while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info)
        switch (info.ssi_signo) {
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT:
            interrupt(l);
            break;
        case SIGWINCH:
            l->table.drawn_ms = 0;
            break;
        }
    reap(l);
}

/* What cannot be started is as if it had failed; the others go on. */
static void start(struct loop_of *l, struct batch_task *t) {
    struct err err = {0};

    t->attempts++;
    t->begun_ms = now_ms();
    t->state = BATCH_RUNNING;
    l->running++;
    if (batch_spawn(l->b, t, &err) >= 0) {
        if (!l->table.live)
            batch_table_say(&l->table, "%s: started%s", t->name, t->attempts > 1 ? " again" : "");
        return;
    }
    batch_table_say(&l->table, "%s: %s", t->name, err.msg);
    batch_take_report(t, EXIT_SANDBOX << 8, now_ms());
    finish(l, t);
}

static struct batch_task *next_waiting(struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].state == BATCH_WAITING)
            return &b->v[i];
    return NULL;
}

static int wait_for_something(struct loop_of *l, struct err *err) {
    struct pollfd fds[1 + BATCH_JOBS_MAX];
    struct batch_task *who[1 + BATCH_JOBS_MAX];
    nfds_t n = 1;
    int timeout = batch_table_draw(&l->table, l->b, l->interrupts > 0);

    fds[0] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    for (size_t i = 0; i < l->b->n && n < ARRAY_LEN(fds); i++)
        if (l->b->v[i].link >= 0) {
            who[n] = &l->b->v[i];
            fds[n++] = (struct pollfd){.fd = l->b->v[i].link, .events = POLLIN};
        }
    if (poll(fds, n, timeout) < 0 && errno != EINTR)
        return err_sys(err, -errno, "poll");
    for (nfds_t i = 1; i < n; i++)
        if (fds[i].revents)
            read_link(who[i]);
    if (fds[0].revents)
        on_signals(l);
    return 0;
}

int batch_run(struct batch *b, struct err *err) {
    struct loop_of l = {.b = b, .signals = -1};
    int r = open_signals(&l, err);

    batch_table_init(&l.table);
    while (r >= 0) {
        struct batch_task *t;

        while (!l.stopping && l.running < b->jobs && (t = next_waiting(b)))
            start(&l, t);
        if (!l.running)
            break;
        r = wait_for_something(&l, err);
    }
    batch_table_clear(&l.table);
    for (size_t i = 0; i < b->n; i++)
        if (b->v[i].state == BATCH_WAITING)
            b->v[i].state = b->v[i].attempts ? BATCH_FAILED : BATCH_SKIPPED;
    closep(&l.signals);
    sigprocmask(SIG_SETMASK, &l.old, NULL);
    return r < 0 ? r : l.interrupts;
}
