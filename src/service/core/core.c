/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of bawnd. */
#include "service/core/core.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/sigfd.h"
#include "service/core/core_worker.h"

enum { DRAIN_MS = 10 * 1000, CLEAN_FIRST_MS = 2000, TURN_TRIES = 4 };

void core_done(struct core *c) {
    const int fds[] = {c->tenants_dir, c->trash, c->runtime, c->listener, c->signals, c->front, c->tls[0], c->tls[1]};

    ledger_done(&c->db);
    fd_close_all(fds, ARRAY_LEN(fds));
    fd_close_all(c->tcp, c->n_tcp);
    for (size_t i = 0; i < c->n_tenants; i++)
        tenant_free(c->tenants[i]);
    free(c->tenants);
    free(c->running);
    free(c->starting);
    free(c->workers);
    free(c->peers);
    free(c->out);
    core_conf_done(&c->conf);
}

/* -- signals and children ------------------------------------------------------------------------------------------------------ */

static void drain(struct core *c) {
    struct api_msg m = {.kind = API_DRAIN};

    if (c->draining)
        return;
    core_log(c, "info", "drain", "", "no new runs are started; %zu run on", c->n_running);
    c->draining = true;
    c->drain_at_ms = clock_ms() + DRAIN_MS;
    core_send(c, &m);
}

static void reap(struct core *c) {
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        worker_reaped(c, pid, status);
        if (pid == c->front_pid)
            c->front_pid = 0;
        core_clean_reaped(c, pid, status);
    }
}

static void on_signals(struct core *c) {
    struct signalfd_siginfo info;

    while (sigfd_next(c->signals, &info))
        if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
            drain(c);
        else if (info.ssi_signo == SIGHUP)
            core_log_reopen(c);
    reap(c);
}

/* -- times -------------------------------------------------------------------------------------------------------------------- */

static void end_deadlines(struct core *c) {
    uint64_t now = clock_ms();

    for (struct api_call *call = c->calls, *next; call; call = next) {
        next = call->next;
        if (!call->deadline_ms || call->deadline_ms > now || call->wait != WAIT_END)
            continue;
        call_run(call, call->status, &call->run->row);
    }
}

static void on_times(struct core *c) {
    uint64_t now = clock_ms();
    struct err err = {0};

    end_deadlines(c);
    core_clean_times(c, now);
    core_traffic_times(c, now);
    if (c->front < 0 && !c->draining && c->front_at_ms <= now && core_spawn_front(c, &err) < 0) {
        core_log(c, "error", "front", "", "%s", err.msg);
        c->front_at_ms = now + 1000;
    }
    if (c->draining && (c->front < 0 || c->drain_at_ms <= now))
        c->over = true;
}

static uint64_t next_time(const struct core *c) {
    uint64_t at = c->measure_at_ms ? MIN_OF(c->clean_at_ms, c->measure_at_ms) : c->clean_at_ms;

    if (c->n_running || c->n_workers || c->traffic_busy)
        at = MIN_OF(at, c->traffic_at_ms);

    for (const struct api_call *call = c->calls; call; call = call->next)
        if (call->deadline_ms)
            at = MIN_OF(at, call->deadline_ms);
    if (c->front < 0)
        at = MIN_OF(at, c->front_at_ms);
    return MAX_OF(c->draining ? MIN_OF(at, c->drain_at_ms) : at, (uint64_t)1);
}

/* -- the loop ----------------------------------------------------------------------------------------------------------------- */

enum { SLOT_SIGNALS, SLOT_LISTENER, SLOT_FRONT, SLOT_TASKS };

static void prepare_core(struct evloop *l, void *arg) {
    struct core *c = arg;

    evloop_want(l, c->signals, POLLIN);
    evloop_want(l, c->draining || c->front < 0 ? -1 : c->listener, POLLIN);
    evloop_want(l, c->front, POLLIN | (c->out_at < c->n_out ? POLLOUT : 0));
    for (size_t i = 0; i < c->n_running; i++)
        evloop_want(l, c->running[i]->task, POLLIN);
    for (const struct api_call *call = c->calls; call; call = call->next)
        if (call->exec >= 0)
            evloop_want(l, call->exec, POLLIN);
    evloop_wake_at(l, next_time(c));
}

/* A run that ends is taken out of the list, so the descriptors are found by their numbers, from the last on. */
static void on_tasks(struct core *c, const struct pollfd *fds, size_t n) {
    for (size_t i = MIN_OF(n, c->n_running); i-- > 0;)
        if (fds[i].revents && c->running[i]->task == fds[i].fd)
            core_task_ready(c, c->running[i]);
}

/* Of what the loop waited for only the numbers are compared: calls come and go. */
static void on_execs(struct core *c, const struct pollfd *fds, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (struct api_call *call = fds[i].revents ? c->calls : NULL; call; call = call->next)
            if (call->exec == fds[i].fd) {
                core_exec_ready(c, call);
                break;
            }
}

/* Picks what may start, commits, answers, starts; what could not be started ends, which is committed as well. */
static int settle(struct core *c, struct err *err) {
    for (int i = 0; i < TURN_TRIES; i++) {
        int r = core_pick_runs(c, err);

        r = r < 0 ? r : core_commit(c, err);
        if (r < 0)
            return r;
        core_flush(c);
        if (c->n_starting == 0)
            return 0;
        core_start_runs(c);
    }
    return core_commit(c, err);
}

static int on_core(void *arg, const struct pollfd *fds, size_t n) {
    struct core *c = arg;
    struct err err = {0};
    size_t tasks = c->n_running;
    int r;

    on_execs(c, fds + SLOT_TASKS + tasks, n - SLOT_TASKS - tasks);
    on_tasks(c, fds + SLOT_TASKS, tasks);
    if (fds[SLOT_SIGNALS].revents)
        on_signals(c);
    if (fds[SLOT_LISTENER].revents)
        core_accept(c);
    if (fds[SLOT_FRONT].revents & ~POLLOUT && c->front == fds[SLOT_FRONT].fd)
        core_receive(c, &err);
    on_times(c);
    r = settle(c, &err);
    if (r < 0)
        core_log(c, "error", "database", "", "%s", err.msg);
    core_flush(c);
    return r;
}

/* What cannot be committed was not answered either: ending is the honest way out, and the next bawnd begins with what is stored. */
int core_run(struct core *c, struct err *err) {
    struct evloop_source all = {.prepare = prepare_core, .ready = on_core, .arg = c, .fd = -1};
    struct evloop l = EVLOOP_INIT;
    int r = evloop_add(&l, &all);

    c->begun_ms = clock_ms();
    c->clean_at_ms = c->begun_ms + CLEAN_FIRST_MS;
    c->front_at_ms = 1;
    while (r == 0 && !c->over)
        r = evloop_turn(&l);
    evloop_done(&l);
    return r < 0 ? err_sys(err, r, "the service") : 0;
}
