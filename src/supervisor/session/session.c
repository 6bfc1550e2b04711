/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox from before its start to its last trace: engine, workspace, guard, network, the loop's source, the end. */
#include "supervisor/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/seldom.h"
#include "config/settings.h"
#include "engine/private_dir.h"
#include "jail/plan/elsewhere.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/session/system_dir.h"
#include "workspace/hide/ignore.h"

/* The journal of direct mode begins with the first change. */
static int begin_journal(void *arg, struct journal **ret, struct err *err) {
    struct session *s = arg;
    int r = stage_folder(&s->stage, err);

    return r < 0 ? r : stage_journal(&s->stage, &s->stage.rd, ret, err);
}

/* Users without a home, as services are, can work; a line says what is missing. */
static bool can_record(const struct session *s) {
    struct err why = {0};

    if (s->stage.runs && (access(s->stage.runs, W_OK) == 0 || paths_make_dirs(s->stage.runs, &why) == 0))
        return true;
    log_line("what this run changes is not recorded (%s): there will be no review and no rollback",
             why.msg[0] ? why.msg : "no home, and no XDG_STATE_HOME");
    return false;
}

/* In direct mode what the command changes goes through the guard in bawn-init. */
static int make_guard(struct session *s, struct err *err) {
    int pair[2], r;

    if (s->stage.mode != WORKSPACE_DIRECT || !s->engine->has_guard)
        return 0;
    r = stage_protect(&s->stage, &s->protect, err);
    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "socket of the guard");
    s->guard_inside = pair[1];
    r = guard_init(&s->guard, pair[0], s->stage.workspace, can_record(s) ? begin_journal : NULL, s, err);
    s->guard.skip_ignored = s->opt->settings->workspace.skip_ignored;
    return r;
}

static int prepare_network(struct session *s, struct err *err) {
    const struct settings *set = s->opt->settings;

    if (set->net.mode == NETWORK_NONE || !s->engine->has_gate) {
        if (set->ssh.agent == SSH_AGENT_ON)
            log_note("no ssh-agent inside: it is reached through the gate, which a run without a network does not have");
        return 0;
    }
    return run_network_prepare(&s->network, set, s->opt->facts, &s->input, s->stage.workspace, err);
}

static int choose_engine(struct session *s, struct err *err) {
    const struct settings *set = s->opt->settings;

    s->engine = engine_find(str_eq(set->engine, "auto") ? "native" : set->engine, err);
    if (!s->engine)
        return err->code;
    if (set->allowed_engines.len && !strv_has(&set->allowed_engines, s->engine->name))
        return err_set(err, -EPERM, "the organisation's policy does not allow engine '%s'", s->engine->name);
    return run_check_engine(s->engine, set, err);
}

int session_prepare(struct session *s, const struct run_options *opt, const struct plan_input *input, const char *stage_name,
                    struct err *err) {
    int r;

    s->opt = opt;
    s->input = *input;
    s->input.pid = getpid(); /* a keeper's own: its starter's number may soon be another's */
    s->input.argv = opt->argv;
    s->input.argc = opt->argc;
    r = choose_engine(s, err);
    if (r < 0)
        return r;
    s->input.unmapped = s->engine->unmapped;
    prctl(PR_SET_DUMPABLE, 0); /* no other process may read our memory and environment */
    r = stage_begin(&s->stage, opt, stage_name, &s->input, err);
    if (s->engine->unmapped && opt->facts->uid == 0 && opt->facts->workspace_uid == 0)
        s->input.home.caches = NULL; /* are root's, and the sandbox is not */
    r = r < 0 ? r : stage_no_new(&s->stage, &s->no_new, err);
    r = r < 0 ? r : make_guard(s, err);
    return r < 0 ? r : prepare_network(s, err);
}

/* While it runs, and its end -------------------------------------------------------------------------------------- */

/* Only where the host's own folder is shown, be it by a mount of the user's. Where nothing can be mounted over a file only what is
 * protected matters. */
static int watch_names(struct session *s, struct err *err) {
    enum workspace_mode mode = s->plan.mode;
    bool copy = mode == WORKSPACE_SYNC || mode == WORKSPACE_WORKTREE, guarded = s->protect && !copy;
    bool shown = !copy || (s->input.workspace.elsewhere && s->input.workspace.elsewhere->n);
    bool covers = shown && rung_has_root(s->plan.rung) && s->engine->has_guard;
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

/* Home and /tmp on disk: a part of all that the disk limit is about, with a limit of its own. */
static void watch_tmp(struct session *s) {
    const char *const mounts[WATCH_MOUNTS] = {s->plan.tmp, "/var/tmp", s->plan.home_persistent ? NULL : s->plan.home};

    if (s->plan.tmp_size || s->plan.writable_system)
        watch_also(&s->watch, s->private_dir.fd, false);
    if (!s->plan.tmp_size)
        return;
    watch_own(&s->tmp_watch, s->plan.tmp_size, s->private_dir.fd, s->sandbox.pid, mounts);
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
    s->watch.many_ids = plan_ids_many(&s->plan.ids) && geteuid() != 0;
    watch_also(&s->watch, s->caches, false);
    watch_also(&s->watch, s->home, true);
    s->grown_system = s->home >= 0 && s->system_dir ? open(s->system_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    watch_also(&s->watch, s->grown_system, true);
    watch_tmp(s);
    closep(&s->guard_inside);
    return 0;
}

enum { POLL_LATECOMERS, POLL_GUARD, POLL_GATE };

void session_want(struct evloop *l, void *arg) {
    struct session *s = arg;
    struct pollfd *p;

    evloop_want(l, latecomers_fd(&s->latecomers), POLLIN);
    evloop_want(l, s->guard.sock, POLLIN);
    p = s->network.gate ? evloop_slots(l, GATE_POLL_MAX) : NULL;
    if (p)
        evloop_give_back(l, GATE_POLL_MAX - gatekeeper_poll(s->network.gate, p));
    if (s->network.gate)
        evloop_wake_in(l, gatekeeper_timeout(s->network.gate));
    evloop_wake_in(l, watch_timeout(&s->watch));
    evloop_wake_in(l, watch_timeout(&s->tmp_watch));
    evloop_wake_in(l, latecomers_timeout(&s->latecomers));
    evloop_wake_in(l, landing_timeout(&s->landing));
    evloop_wake_in(l, stage_timeout(&s->stage));
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

    stage_turn(&s->stage);
    guard_handle(&s->guard); /* what the command made itself must be known before it is covered */
    if (TAKE(s->late, false) || latecomers_timeout(&s->latecomers) == 0)
        r = latecomers_handle(&s->latecomers, err);
    return r < 0 ? r : landing_settle(&s->landing, err);
}

enum session_limit session_check(struct session *s) {
    enum watch_event event = watch_check(&s->watch);

    if (event == WATCH_NOTHING && watch_check(&s->tmp_watch) != WATCH_NOTHING)
        return SESSION_TMP;
    return event == WATCH_TIME ? SESSION_TIME : event == WATCH_DISK ? SESSION_DISK : SESSION_WITHIN;
}

void session_rest(struct session *s) {
    s->watch.paused = s->tmp_watch.paused = true;
    s->latecomers.resting = true;
}

int session_wake(struct session *s, struct err *err) {
    s->watch.paused = s->tmp_watch.paused = false;
    return latecomers_wake(&s->latecomers, err);
}

void session_describe(const struct session *s, const char *profile, struct box_state *ret) {
    const struct limits *l = &s->plan.limits;

    ret->init = MAX_OF(s->sandbox.pid, 0); /* another machine's has no number here */
    snprintf(ret->engine, sizeof ret->engine, "%s", s->engine->name);
    snprintf(ret->rung, sizeof ret->rung, "%s", rung_names[s->plan.rung]);
    snprintf(ret->mode, sizeof ret->mode, "%s", workspace_mode_names[s->plan.mode]);
    snprintf(ret->profile, sizeof ret->profile, "%s", profile ? profile : "");
    ret->memory = l->memory;
    ret->pids = l->pids;
    ret->cpus_milli = l->cpus_milli;
    str_set(&ret->tmp, s->plan.tmp_size ? s->private_dir.path : NULL); /* says less without memory, nothing wrong */
    strv_done(&ret->cgroups);
    for (unsigned i = 0; i < s->sandbox.cgroup.n; i++)
        strv_add(&ret->cgroups, s->sandbox.cgroup.groups[i].path);
}

void session_stop(struct session *s) {
    s->engine->stop(&s->sandbox);
    guard_finish(&s->guard);
    latecomers_last(&s->latecomers);
    landing_last(&s->landing);
    run_network_end(&s->network);
}

void session_finish(struct session *s) {
    s->clearing = s->launched && s->engine->collect;
    if (s->clearing)
        s->engine->collect(&s->sandbox);
    else
        s->engine->finish(&s->sandbox);
    private_dir_remove(&s->private_dir);
    s->input.private_dir = NULL;
}

void session_limits(struct session *s, struct run_result *r) {
    struct cgroup_hits hits = {0};

    cgroup_hits(&s->sandbox.cgroup, &hits);
    r->hit[RUN_LIMIT_MEMORY] |= hits.oom_kills > 0;
    r->hit[RUN_LIMIT_PIDS] |= hits.pids > 0;
    if (s->opt->want_usage)
        cgroup_usage(&s->sandbox.cgroup, &r->usage);
    /* The group counts all. Without one, or without cpuacct, those whose parents ignore SIGCHLD are missing. */
    r->usage.cpu_us = MAX_OF(r->usage.cpu_us, s->sandbox.cpu_us);
    r->enforced = s->sandbox.cgroup.enforces;
    r->limits = s->plan.limits;
    r->private_size = s->plan.tmp_size ? s->plan.tmp_size : s->plan.private_size;
    r->tmp_on_disk = s->plan.tmp_size > 0;
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
    if (TAKE(s->clearing, false))
        s->engine->finish(&s->sandbox);
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
    closep(&s->grown_system);
    free(TAKE_PTR(s->system_dir));
    *s = (struct session)SESSION_INIT;
}
