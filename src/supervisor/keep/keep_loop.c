/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's one loop: bawn-init, signals, clients of both sockets, streams of jobs in the background, what the session waits for, and
 * time. Clients and jobs that are over are only marked while a turn lasts and freed at its end.
 */
#include <errno.h>
#include <limits.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "os/fd.h"
#include "supervisor/keep/keep_priv.h"

enum { POLL_INIT, POLL_SIGNALS, POLL_LISTENER, POLL_FROZE, POLL_OWN, LOOK_FIRST_MS = 5, LOOK_MS = 50, LOOK_IDLE_MS = 2000 };

/* The end ---------------------------------------------------------------------------------------------------------- */

static void signal_all(struct keeper *k, int sig) {
    struct init_msg m = {.type = INIT_MSG_ALL, .value = sig};

    keep_send(k, &m, NULL, 0, NULL, 0);
}

void keep_fail(struct keeper *k, int r, const char *why) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(2048);

    if (k->ended)
        return;
    buf_add_printable(&text, why);
    err_set(k->err, r, "%s", buf_str(&text));
    k->ended = true;
    k->asked = k->phase == BOX_STOPPING; /* PID 1 that goes while all are being ended is no failure */
}

/* Shells ignore SIGTERM; their terminals hang up. */
static void hang_up_terminals(struct keeper *k) {
    for (size_t i = 0; i < k->n_jobs; i++)
        if (!k->jobs[i]->exited && (k->jobs[i]->flags & EXEC_TTY))
            job_signal(k, k->jobs[i], SIGHUP, true);
}

void keep_stop(struct keeper *k, int seconds, const char *why) {
    uint64_t now = watch_now_ms();

    if (k->phase == BOX_STOPPING || seconds < 0 || k->phase == BOX_STARTING) {
        k->asked = k->ended = true;
        return;
    }
    log_line("sandbox '%s' is being stopped: %s", k->box->name, why);
    inside_thaw(k);
    keep_save(k, BOX_STOPPING);
    signal_all(k, SIGTERM);
    hang_up_terminals(k);
    signal_all(k, SIGCONT);
    k->at.stop_ms = now + (uint64_t)seconds * 1000;
    k->at.look_ms = now + LOOK_FIRST_MS;
}

static void on_signals(struct keeper *k) {
    struct signalfd_siginfo info;

    while (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP)
            keep_stop(k, KEEP_STOP_SECONDS, "a signal came");
}

/* Time ------------------------------------------------------------------------------------------------------------- */

static int until(uint64_t at_ms, uint64_t now) {
    return !at_ms ? -1 : at_ms <= now ? 0 : (int)MIN_OF(at_ms - now, (uint64_t)INT_MAX);
}

static uint64_t idle_at(const struct keeper *k) {
    return k->at.idle_ms && !k->n_running && k->phase == BOX_RUNNING ? k->at.used_ms + k->at.idle_ms : 0;
}

static int timeout(const struct keeper *k) {
    const uint64_t moments[] = {k->at.stop_ms, k->at.look_ms, k->at.save_ms, k->freeze.thaw_ms, idle_at(k)};
    uint64_t now = watch_now_ms();
    int t = session_sooner(session_timeout(&k->session), KEEP_ALONE_MS);

    for (size_t i = 0; i < ARRAY_LEN(moments); i++)
        t = session_sooner(t, until(moments[i], now));
    for (size_t i = 0; i < k->n_jobs; i++)
        t = session_sooner(t, until(job_next_ms(k->jobs[i]), now));
    for (size_t i = 0; i < k->n_clients; i++)
        if (k->clients[i]->stalled_ms)
            t = session_sooner(t, until(k->clients[i]->stalled_ms + KEEP_STALLED_MS, now));
    return t;
}

/* Is anything left inside? While nothing is, nobody has to watch the disk; while stopping it is the end. */
static void look_inside(struct keeper *k, uint64_t now) {
    pid_t one[1];
    bool empty = inside_pids(k, one, ARRAY_LEN(one)) == 0;

    if (k->phase == BOX_STOPPING) {
        k->asked = k->ended = empty && !k->n_running; /* how a job ended may still be on its way */
        k->at.look_ms = now + LOOK_MS;
        return;
    }
    if (empty && !k->n_running)
        session_rest(&k->session);
    k->at.look_ms = k->session.watch.paused || k->n_running ? 0 : now + LOOK_IDLE_MS;
}

static void check_watch(struct keeper *k) {
    if (!k->n_running && !k->session.watch.paused && !k->at.look_ms)
        k->at.look_ms = watch_now_ms() + LOOK_IDLE_MS;
    if (watch_check(&k->session.watch) != WATCH_DISK)
        return;
    keep_audit_limit(k, RUN_LIMIT_DISK);
    k->lost |= EXEC_END_DISK;
    keep_fail(k, -EDQUOT, "the limit on disk space was reached");
}

static void stop_idle(struct keeper *k) {
    char time[24], why[80];

    format_duration(k->at.idle_ms, time);
    snprintf(why, sizeof why, "nothing was executed for %s", time);
    keep_stop(k, KEEP_STOP_SECONDS, why);
}

/* Somebody removed the folder with his own hands: no verb would ever find us again. */
static bool is_forgotten(const struct keeper *k) {
    struct stat st;

    return k->phase == BOX_RUNNING && fstat(k->box->fd, &st) == 0 && st.st_nlink == 0;
}

static void on_time(struct keeper *k) {
    uint64_t now = watch_now_ms();

    if (is_forgotten(k))
        keep_stop(k, KEEP_STOP_SECONDS, "its folder was removed");
    for (size_t i = 0; i < k->n_jobs; i++)
        job_tick(k, k->jobs[i], now);
    for (size_t i = 0; i < k->n_clients; i++)
        if (k->clients[i]->stalled_ms && now >= k->clients[i]->stalled_ms + KEEP_STALLED_MS)
            client_drop(k, k->clients[i]);
    check_watch(k);
    if (k->at.look_ms && now >= k->at.look_ms)
        look_inside(k, now);
    if (k->at.stop_ms && now >= k->at.stop_ms)
        k->asked = k->ended = true;
    if (k->freeze.thaw_ms && now >= k->freeze.thaw_ms)
        inside_thaw(k);
    if (idle_at(k) && now >= idle_at(k))
        stop_idle(k);
    if (k->at.save_ms && now >= k->at.save_ms) {
        keep_save(k, k->phase);
        keep_rotate_log(k);
    }
}

/* Waiting ---------------------------------------------------------------------------------------------------------- */

/* What a client has to say waits while bawn-init has no room; one that waits for an answer only hangs up. */
static struct pollfd client_poll(const struct keeper *k, const struct keep_client *c) {
    bool quiet = client_waits(c) || k->outbox.first;
    short events = (short)((quiet ? 0 : POLLIN) | (c->out.len ? POLLOUT : 0));

    return (struct pollfd){.fd = events || c->kind == CLIENT_OPEN ? c->fd : -1, .events = events};
}

static int make_room(struct keeper *k) {
    size_t need = POLL_OWN + SESSION_POLL_MAX + CONTROL_POLL_MAX + k->n_clients + 3 * k->n_jobs;
    struct pollfd *grown;

    if (need <= k->cap_fds)
        return 0;
    grown = reallocarray(k->fds, 2 * need, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    k->fds = grown;
    k->cap_fds = 2 * need;
    return 0;
}

/* Whoever comes before it runs waits in the queue of the listener. */
static bool may_connect(const struct keeper *k) {
    return k->phase != BOX_STARTING && k->n_clients < KEEP_CLIENTS_MAX;
}

struct keep_waiting {
    size_t session, control, clients, jobs, all; /* where each part begins */
};

static void fill(struct keeper *k, struct keep_waiting *w) {
    struct pollfd *f = k->fds;
    size_t n = POLL_OWN;

    f[POLL_INIT] = (struct pollfd){.fd = k->session.sandbox.control, .events = (short)(POLLIN | (k->outbox.first ? POLLOUT : 0))};
    f[POLL_SIGNALS] = (struct pollfd){.fd = k->signals, .events = POLLIN};
    f[POLL_LISTENER] = (struct pollfd){.fd = may_connect(k) ? k->exec.listener : -1, .events = POLLIN};
    f[POLL_FROZE] = (struct pollfd){.fd = k->freeze.by, .events = POLLIN};
    w->session = n;
    n += session_poll(&k->session, f + n);
    w->control = n;
    n += control_server_poll(k->control, f + n);
    w->clients = n;
    for (size_t i = 0; i < k->n_clients; i++)
        f[n++] = client_poll(k, k->clients[i]);
    w->jobs = n;
    for (size_t i = 0; i < k->n_jobs; i++)
        n += job_io_poll(k, k->jobs[i], f + n);
    w->all = n;
}

static void hand_out(struct keeper *k, const struct keep_waiting *w) {
    const struct pollfd *f = k->fds + w->jobs;

    for (size_t i = 0; i < k->n_clients; i++)
        k->clients[i]->revents = k->fds[w->clients + i].revents;
    for (size_t i = 0; i < k->n_jobs; i++)
        f = job_io_came(k->jobs[i], f);
}

static void on_clients(struct keeper *k) {
    for (size_t i = 0; i < k->n_clients; i++) {
        struct keep_client *c = k->clients[i];

        if (c->out.len && (c->revents & (POLLOUT | POLLHUP | POLLERR)))
            client_flush(k, c);
        if (c->kind == CLIENT_OPEN && (c->revents & (POLLHUP | POLLERR)))
            client_drop(k, c);
        else if (c->revents & (POLLIN | POLLHUP | POLLERR))
            client_handle(k, c);
        c->revents = 0;
    }
}

static bool any_came(const struct pollfd *fds, size_t n) {
    while (n > 0)
        if (fds[--n].revents)
            return true;
    return false;
}

static void turn(struct keeper *k, const struct keep_waiting *w) {
    struct err err = {0};

    hand_out(k, w);
    if (k->fds[POLL_SIGNALS].revents)
        on_signals(k);
    if (k->fds[POLL_FROZE].revents)
        inside_thaw(k);
    session_handle(&k->session, k->fds + w->session, w->control - w->session);
    if (keep_flush(k) < 0 || k->fds[POLL_INIT].revents)
        keep_receive(k);
    if (!k->ended && session_settle(&k->session, k->fds + w->session, &err) < 0) {
        k->lost |= k->session.landing.stopped ? EXEC_END_LANDED : 0;
        keep_fail(k, err.code, err.msg);
    }
    for (size_t i = 0; i < k->n_jobs; i++)
        job_io_handle(k, k->jobs[i]);
    if (k->fds[POLL_LISTENER].revents)
        clients_accept(k);
    on_clients(k);
    if (any_came(k->fds + w->control, w->clients - w->control))
        control_server_handle(k->control);
}

int keep_loop(struct keeper *k, struct err *err) {
    while (!k->ended) {
        struct keep_waiting w;

        clients_sweep(k);
        jobs_sweep(k);
        audit_flush(k->audit);
        if (make_room(k) < 0)
            return err_oom(err);
        fill(k, &w);
        if (poll(k->fds, w.all, timeout(k)) < 0 && errno != EINTR)
            return err_sys(err, -errno, "poll");
        turn(k, &w);
        on_time(k);
    }
    return 0;
}
