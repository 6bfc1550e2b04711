/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's one loop: bawn-init, signals, clients of both sockets, streams of jobs in the background, what the session waits for, and
 * time. Clients and jobs that are over are only marked while a turn lasts and freed at its end.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "supervisor/keep/keep_priv.h"

enum { LOOK_FIRST_MS = 5, LOOK_MS = 50, LOOK_IDLE_MS = 2000 };

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

void keep_stop(struct keeper *k, int seconds, const char *why) {
    uint64_t now = clock_ms();

    if (k->phase == BOX_STOPPING || seconds < 0 || k->phase == BOX_STARTING) {
        k->asked = k->ended = true;
        return;
    }
    log_line("sandbox '%s' is being stopped: %s", k->box->name, why);
    inside_thaw(k);
    keep_save(k, BOX_STOPPING);
    signal_all(k, SIGTERM);
    for (size_t i = 0; i < k->n_jobs; i++) /* shells ignore SIGTERM; their terminals hang up */
        if (!k->jobs[i]->exited && (k->jobs[i]->flags & EXEC_TTY))
            job_signal(k, k->jobs[i], SIGHUP, true);
    signal_all(k, SIGCONT);
    k->at.stop_ms = now + (uint64_t)seconds * 1000;
    k->at.look_ms = now + LOOK_FIRST_MS;
}

static int on_signals(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    struct signalfd_siginfo info;
    struct keeper *k = arg;

    while (sigfd_next(k->signals, &info))
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT || info.ssi_signo == SIGHUP)
            keep_stop(k, KEEP_STOP_SECONDS, "a signal came");
    return 0;
}

/* Time ------------------------------------------------------------------------------------------------------------- */

static uint64_t idle_at(const struct keeper *k) {
    return k->at.idle_ms && !k->n_running && k->phase == BOX_RUNNING ? k->at.used_ms + k->at.idle_ms : 0;
}

static void want_time(struct evloop *l, void *arg) {
    const struct keeper *k = arg;
    const uint64_t moments[] = {k->at.stop_ms, k->at.look_ms, k->at.save_ms, k->freeze.thaw_ms, idle_at(k)};

    evloop_want(l, k->freeze.by, POLLIN); /* the process that froze the sandbox is gone */
    evloop_wake_in(l, KEEP_ALONE_MS);
    for (size_t i = 0; i < ARRAY_LEN(moments); i++)
        evloop_wake_at(l, moments[i]);
}

/* Is a process left inside? If not, the disk need not be watched; while stopping it is the end. */
static void look_inside(struct keeper *k, uint64_t now) {
    pid_t one[1];
    bool empty =
        k->session.sandbox.bytes || inside_pids(k, one, ARRAY_LEN(one)) == 0; /* another kernel's are not seen: the jobs count */

    if (k->phase == BOX_STOPPING) {
        k->asked = k->ended = empty && !k->n_running; /* how a job ended may still be on its way */
        k->at.look_ms = now + LOOK_MS;
        return;
    }
    if (empty && !k->n_running) {
        session_rest(&k->session);
        process_give_memory_back();
    }
    k->at.look_ms = k->session.watch.paused || k->n_running ? 0 : now + LOOK_IDLE_MS;
}

static void check_watch(struct keeper *k) {
    enum session_limit reached;

    if (!k->n_running && !k->session.watch.paused && !k->at.look_ms)
        k->at.look_ms = clock_ms() + LOOK_IDLE_MS;
    reached = session_check(&k->session);
    if (reached != SESSION_DISK && reached != SESSION_TMP)
        return;
    keep_audit_limit(k, reached == SESSION_TMP ? RUN_LIMIT_PRIVATE : RUN_LIMIT_DISK);
    k->lost |= reached == SESSION_TMP ? EXEC_END_PRIVATE : EXEC_END_DISK;
    keep_fail(k, -EDQUOT,
              reached == SESSION_TMP ? "the limit on /tmp (--tmp-size) was reached" : "the limit on disk space was reached");
}

static void stop_idle(struct keeper *k) {
    char time[24], why[80];

    format_duration(k->at.idle_ms, time);
    snprintf(why, sizeof why, "nothing was executed for %s", time);
    keep_stop(k, KEEP_STOP_SECONDS, why);
}

/* The user removed the folder by hand: no verb would ever find us again. */
static bool is_forgotten(const struct keeper *k) {
    struct stat st;

    return k->phase == BOX_RUNNING && fstat(k->box->fd, &st) == 0 && st.st_nlink == 0;
}

static int on_time(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    struct keeper *k = arg;
    uint64_t now = clock_ms();

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
    if (k->freeze.thaw_ms && (fds[0].revents || now >= k->freeze.thaw_ms))
        inside_thaw(k);
    if (idle_at(k) && now >= idle_at(k))
        stop_idle(k);
    if (k->at.save_ms && now >= k->at.save_ms) {
        keep_save(k, k->phase);
        keep_rotate_log(k);
    }
    return 0;
}

/* Clients, jobs and bawn-init ------------------------------------------------------------------------------------- */

/* Requests wait while bawn-init has no room. A client that waits for an answer only hangs up. */
static void want_clients(struct evloop *l, void *arg) {
    const struct keeper *k = arg;

    /* A client that comes before the sandbox runs waits in the queue of the listener. */
    evloop_want(l, k->phase != BOX_STARTING && k->n_clients < KEEP_CLIENTS_MAX ? k->exec.listener : -1, POLLIN);
    for (size_t i = 0; i < k->n_clients; i++) {
        const struct keep_client *c = k->clients[i];
        bool quiet = client_waits(c) || k->outbox.first;
        short events = (short)((quiet ? 0 : POLLIN) | (c->out.len ? POLLOUT : 0));

        evloop_want(l, events || c->kind == CLIENT_OPEN ? c->fd : -1, events);
        evloop_wake_at(l, c->stalled_ms ? c->stalled_ms + KEEP_STALLED_MS : 0);
    }
}

static void on_client(struct keeper *k, struct keep_client *c, short came) {
    if (c->out.len && (came & (POLLOUT | POLLHUP | POLLERR)))
        client_flush(k, c);
    if (c->kind == CLIENT_OPEN && (came & (POLLHUP | POLLERR)))
        client_drop(k, c);
    else if (came & (POLLIN | POLLHUP | POLLERR))
        client_handle(k, c);
}

/* One that has just connected has mostly sent its request, too. */
static int on_clients(void *arg, const struct pollfd *fds, size_t n) {
    struct keeper *k = arg;

    if (fds[0].revents)
        clients_accept(k);
    for (size_t i = 0; i < k->n_clients; i++)
        on_client(k, k->clients[i], i + 1 < n ? fds[i + 1].revents : POLLIN);
    return 0;
}

static void want_jobs(struct evloop *l, void *arg) {
    const struct keeper *k = arg;

    for (size_t i = 0; i < k->n_jobs; i++) {
        struct pollfd *p = evloop_slots(l, JOB_IO_POLL);
        struct keep_job *j = k->jobs[i];

        if (p)
            evloop_give_back(l, JOB_IO_POLL - job_io_poll(k, j, p));
        evloop_wake_at(l, j->timeout_at_ms);
        evloop_wake_at(l, j->kill_at_ms);
        evloop_wake_at(l, j->linger_at_ms);
        evloop_wake_at(l, job_io_next_ms(j));
    }
}

static int on_jobs(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    struct keeper *k = arg;

    for (size_t i = 0; i < k->n_jobs; i++)
        fds += job_io_handle(k, k->jobs[i], fds);
    return 0;
}

static void want_init(struct evloop *l, void *arg) {
    const struct keeper *k = arg;

    evloop_want(l, k->session.sandbox.control, (short)(POLLIN | (k->outbox.first ? POLLOUT : 0)));
}

/* The session settles once bawn-init's messages are read. */
static int on_init(void *arg, const struct pollfd *fds, size_t n UNUSED) {
    struct keeper *k = arg;
    struct err err = {0};

    if (keep_flush(k) < 0 || fds[0].revents)
        keep_receive(k);
    if (!k->ended && session_settle(&k->session, &err) < 0) {
        k->lost |= k->session.landing.stopped ? EXEC_END_LANDED : 0;
        keep_fail(k, err.code, err.msg);
    }
    return 0;
}

static void want_control(struct evloop *l, void *arg) {
    const struct keeper *k = arg;
    struct pollfd *p = evloop_slots(l, CONTROL_POLL_MAX);

    if (p)
        evloop_give_back(l, CONTROL_POLL_MAX - control_server_poll(k->control, p));
}

static int on_control(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    control_server_handle(((const struct keeper *)arg)->control);
    return 0;
}

int keep_loop(struct keeper *k, struct err *err) {
    struct evloop_source sources[] = {
        {.fd = k->signals, .events = POLLIN, .ready = on_signals, .arg = k},
        {.prepare = session_want, .ready = session_ready, .each_turn = true, .arg = &k->session},
        {.prepare = want_init, .ready = on_init, .each_turn = true, .arg = k},
        {.prepare = want_jobs, .ready = on_jobs, .arg = k},
        {.prepare = want_clients, .ready = on_clients, .arg = k},
        {.prepare = want_control, .ready = on_control, .arg = k},
        {.prepare = want_time, .ready = on_time, .each_turn = true, .arg = k},
    };
    CLEANUP(evloop_done) struct evloop l = EVLOOP_INIT;
    int r = evloop_add_all(&l, sources, ARRAY_LEN(sources));

    while (r == 0 && !k->ended) {
        clients_sweep(k);
        jobs_sweep(k);
        audit_flush(k->audit);
        r = evloop_turn(&l);
    }
    return r < 0 ? err_sys(err, r, "wait for events") : 0;
}
