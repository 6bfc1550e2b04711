/* SPDX-License-Identifier: Apache-2.0 */
/* A session while its sandbox runs, and its end. */
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "jail/plan/elsewhere.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "supervisor/session/session.h"
#include "workspace/hide/ignore.h"

/* Only where the host's own folder is shown, be it by a mount of the user's. Where nothing can be mounted over a file only what is
 * protected matters. */
static int watch_names(struct session *s, struct err *err) {
    enum workspace_mode mode = s->plan.mode;
    bool copy = mode == WORKSPACE_SYNC || mode == WORKSPACE_WORKTREE, guarded = s->protect && !copy;
    bool shown = !copy || (s->input.workspace.elsewhere && s->input.workspace.elsewhere->n);
    bool covers = shown && s->plan.rung == RUNG_FULL && s->engine == &engine_native;
    const struct latecomers_opts opts = {.workspace = s->stage.workspace,
                                         .pidfd = s->sandbox.pidfd,
                                         .upper = mode == WORKSPACE_OVERLAY ? s->grows : -1,
                                         .rules = s->opt->rules,
                                         .accepted = s->opt->accepted,
                                         .no_new = mode == WORKSPACE_DIRECT ? s->no_new : NULL,
                                         .plan = &s->plan,
                                         .elsewhere = s->input.workspace.elsewhere,
                                         .landing = guarded ? &s->landing : NULL,
                                         .covers = covers};
    int r;

    if (!covers && !guarded)
        return 0;
    if (guarded)
        landing_init(&s->landing, &s->guard, s->protect, s->stage.workspace, s->opt->facts->workspace);
    s->guard.shared = guarded ? landing_share : NULL;
    s->guard.arrived = guarded ? landing_has_arrived : NULL;
    s->guard.shared_arg = &s->landing;
    r = latecomers_init(&s->latecomers, &opts, err);
    if (r >= 0)
        s->guard.latecomers = &s->latecomers;
    return r;
}

int session_begin(struct session *s, const struct run_network_opts *n, bool timed, struct err *err) {
    struct run_network_opts network = *n;
    struct limits limits = s->plan.limits;
    int r;

    network.sandbox = &s->sandbox;
    network.mask = s->old_mask;
    r = run_network_begin(&s->network, &network, err);
    if (r < 0)
        return r;
    s->grows = stage_growth(&s->stage);
    s->caches = s->input.home.caches ? open(s->input.home.caches, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    s->home = s->input.home.persistent ? open(s->input.home.persistent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    r = watch_names(s, err);
    if (r < 0)
        return r;
    limits.timeout_ms = timed ? limits.timeout_ms : 0;
    watch_init(&s->watch, &limits, s->grows >= 0 ? s->grows : s->stage.workspace, s->plan.mode != WORKSPACE_RO, s->sandbox.pid);
    watch_also(&s->watch, s->caches, false);
    watch_also(&s->watch, s->home, true);
    closep(&s->guard_inside);
    return 0;
}

enum { POLL_LATECOMERS, POLL_GUARD, POLL_GATE };

static int session_timeout(const struct session *s) {
    int t = clock_sooner(watch_timeout(&s->watch), latecomers_timeout(&s->latecomers));

    t = clock_sooner(t, landing_timeout(&s->landing));
    return s->network.gate ? clock_sooner(t, gatekeeper_timeout(s->network.gate)) : t;
}

void session_want(struct evloop *l, void *arg) {
    struct session *s = arg;
    struct pollfd *p;

    evloop_want(l, latecomers_fd(&s->latecomers), POLLIN);
    evloop_want(l, guard_poll_fd(&s->guard), POLLIN);
    p = s->network.gate ? evloop_slots(l, GATE_POLL_MAX) : NULL;
    if (p)
        evloop_give_back(l, GATE_POLL_MAX - gatekeeper_poll(s->network.gate, p, GATE_POLL_MAX));
    evloop_wake_in(l, session_timeout(s));
}

int session_ready(void *arg, const struct pollfd *fds, size_t n) {
    struct session *s = arg;

    s->late = fds[POLL_LATECOMERS].revents;
    if (fds[POLL_GUARD].revents)
        guard_handle(&s->guard);
    if (s->network.gate)
        gatekeeper_handle(s->network.gate, fds + POLL_GATE, n - POLL_GATE);
    return 0;
}

int session_settle(struct session *s, struct err *err) {
    int r = 0;

    guard_handle(&s->guard); /* what the command made itself must be known before it is covered */
    if (TAKE(s->late, false) || latecomers_timeout(&s->latecomers) == 0)
        r = latecomers_handle(&s->latecomers, err);
    return r < 0 ? r : landing_settle(&s->landing, err);
}

void session_rest(struct session *s) {
    s->watch.paused = true;
    latecomers_rest(&s->latecomers);
}

int session_wake(struct session *s, struct err *err) {
    s->watch.paused = false;
    return latecomers_wake(&s->latecomers, err);
}

void session_stop(struct session *s) {
    s->engine->stop(&s->sandbox);
    guard_finish(&s->guard);
    latecomers_last(&s->latecomers);
    landing_last(&s->landing);
    run_network_end(&s->network);
}

void session_limits(struct session *s, struct run_result *r) {
    struct cgroup_hits hits = {0};

    cgroup_hits(&s->sandbox.cgroup, &hits);
    r->hit[RUN_LIMIT_MEMORY] |= hits.oom_kills > 0;
    r->hit[RUN_LIMIT_PIDS] |= hits.pids > 0;
    if (s->opt->want_usage)
        cgroup_usage(&s->sandbox.cgroup, &r->usage);
    r->enforced = s->sandbox.cgroup.enforces;
    r->limits = s->plan.limits;
    r->rung = s->plan.rung;
}

static void end_network(struct session *s, struct run_result *r) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(1024 * 1024);

    if (s->network.gate)
        gatekeeper_report(s->network.gate);
    if (s->network.gate && s->opt->want_usage) {
        gatekeeper_json(s->network.gate, &json);
        r->network = buf_take(&json);
    }
    run_network_done(&s->network);
}

/* A failure here loses nothing, and does not change how the command ended. */
static void end_stage(struct session *s, struct run_result *r) {
    struct err err = {0};

    if (stage_end(&s->stage, r->status, &err) < 0)
        log_err(&err);
    r->changes = s->stage.changes;
    if (s->stage.have)
        snprintf(r->run, sizeof r->run, "%s", s->stage.rd.name);
}

void session_end(struct session *s, struct run_result *r) {
    guard_report(&s->guard);
    landing_report(&s->landing);
    end_network(s, r);
    latecomers_done(&s->latecomers);
    guard_done(&s->guard);
    closep(&s->guard_inside);
    if (s->launched) /* also if we failed to watch over it: what was changed is stored; nothing if it never began */
        end_stage(s, r);
    else
        stage_undo(&s->stage);
}

void session_done(struct session *s) {
    landing_done(&s->landing);
    ignore_freep(&s->protect);
    ignore_freep(&s->no_new);
    stage_done(&s->stage);
    plan_done(&s->plan);
    closep(&s->grows);
    closep(&s->caches);
    closep(&s->home);
    *s = (struct session)SESSION_INIT;
}
