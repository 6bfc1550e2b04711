/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox from before its start to its last trace: engine, workspace, guard, network, the ladder of rungs, the loop's source, the end. */
#include "supervisor/session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "engine/native/native.h"
#include "jail/plan/elsewhere.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/sock.h"
#include "workspace/hide/ignore.h"

static int make_plan(struct session *s, enum rung rung, struct err *err) {
    int r;

    plan_done(&s->plan);
    if (rung == RUNG_LANDLOCK && !s->private_dir[0]) {
        private_dir_sweep();
        r = private_dir_make(s->private_dir, sizeof s->private_dir, err);
        if (r < 0)
            return r;
        s->input.private_dir = s->private_dir;
    }
    r = plan_make(s->opt->settings, s->opt->facts, &s->input, rung, &s->plan, err);
    if (r < 0 && s->private_dir[0])
        private_dir_remove(s->private_dir);
    return r;
}

static int start_rung(struct session *s, const struct session_how *how, enum rung rung, bool *ret_weaker, struct err *err) {
    struct engine_request req = {.settings = s->opt->settings,
                                 .plan = &s->plan,
                                 .stdio = {how->stdio[0], how->stdio[1], how->stdio[2]},
                                 .tty = how->tty,
                                 .resident = how->resident,
                                 .guard = s->guard_inside,
                                 .hide = s->no_new,
                                 .protect = s->protect,
                                 .old_mask = s->old_mask};
    int r = make_plan(s, rung, err);

    if (r < 0)
        return r;
    *ret_weaker = false;
    r = s->planned ? s->planned(s->arg, s, err) : 0;
    r = r < 0 ? r : s->engine->start(&req, &s->sandbox, ret_weaker, err);
    if (r < 0) {
        s->engine->finish(&s->sandbox);
        if (s->private_dir[0])
            private_dir_remove(s->private_dir);
    }
    return r;
}

/* Without mounts nothing can be laid over a file, and nothing over a folder. */
static int check_bare_workspace(const struct session *s, struct err *err) {
    const struct settings *set = s->opt->settings;
    enum workspace_mode mode = settings_workspace_mode(set);

    if (mode == WORKSPACE_OVERLAY || mode == WORKSPACE_WORKTREE)
        return err_set(
            err, -EOPNOTSUPP,
            "--workspace %s needs user namespaces, which are not available here; use --workspace sync (see 'bawn doctor --fix')",
            workspace_mode_names[mode]);
    if (set->workspace.volumes.len || (mode != WORKSPACE_SYNC && set->workspace.n_substitutes))
        return err_set(
            err, -EOPNOTSUPP,
            "workspace.volumes and workspace.substitute need user namespaces, which are not available here (see 'bawn doctor --fix')");
    if (mode != WORKSPACE_SYNC && s->input.workspace.hidden && s->input.workspace.hidden->len)
        return err_set(err, -EOPNOTSUPP,
                       "without user namespaces '%s' and %zu more cannot be hidden in the workspace itself; use --workspace sync "
                       "(see 'bawn doctor --fix')",
                       s->input.workspace.hidden->v[0], s->input.workspace.hidden->len - 1);
    return 0;
}

static void note_missing_fence(const struct session *s) {
    if (s->plan.rung == RUNG_FULL && s->plan.landlock_abi < 1)
        log_line("no Landlock on this kernel: the second fence around files is missing (the mounts still hold)");
}

/* Down the ladder: only in auto mode, only for the one reason the next rung is made for, and announced. */
int session_start(struct session *s, const struct session_how *how, struct err *err) {
    bool weaker = false;
    int r = start_rung(s, how, RUNG_FULL, &weaker, err);

    if (r < 0 && weaker && s->opt->settings->mode == MODE_REQUIRE)
        return err_ctx(err, r, "--sandbox=require: user namespaces are not available here (see 'bawn doctor --fix')");
    if (r < 0 && weaker) {
        s->sandbox = (struct sandbox)SANDBOX_INIT;
        r = check_bare_workspace(s, err);
        if (r >= 0 && s->network.on)
            r = run_network_give_up(&s->network, err);
        r = r < 0 ? r : start_rung(s, how, RUNG_LANDLOCK, &weaker, err);
        if (r >= 0)
            run_announce_rung(&s->plan);
    }
    if (r < 0)
        return r;
    s->launched = true;
    note_missing_fence(s);
    run_announce_limits(&s->plan, &s->sandbox.cgroup);
    return 0;
}

/* The journal of direct mode begins with the first change. */
static int begin_journal(void *arg, struct journal **ret, struct err *err) {
    struct session *s = arg;
    uint64_t budget = s->opt->settings->workspace.rollback;
    const struct journal_opts opts = {.budget = budget ? budget : UINT64_MAX, .file_max = STAGE_OLD_FILE_MAX};
    int r = stage_folder(&s->stage, err);

    return r < 0 ? r : journal_open(s->stage.rd.fd, true, &opts, ret, err);
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

    if (s->stage.mode != WORKSPACE_DIRECT || s->engine != &engine_native)
        return 0;
    r = stage_protect(&s->stage, &s->protect, err);
    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "socket of the guard");
    s->guard_inside = pair[1];
    return guard_init(&s->guard, pair[0], s->stage.workspace, can_record(s) ? begin_journal : NULL, s, err);
}

/* Only the native engine makes a network that leads to a gate. */
static int prepare_network(struct session *s, struct err *err) {
    const struct settings *set = s->opt->settings;

    if (set->net.mode == NETWORK_NONE || s->engine != &engine_native) {
        if (set->ssh.agent == SSH_AGENT_ON)
            log_line("no ssh-agent inside: it is reached through the gate, which a run without a network does not have");
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
    s->stage_opts = (struct stage_opts){.settings = opt->settings,
                                        .rules = opt->rules,
                                        .name = stage_name,
                                        .fresh = opt->fresh,
                                        .argv = opt->argv,
                                        .argc = opt->argc};
    r = choose_engine(s, err);
    if (r < 0)
        return r;
    prctl(PR_SET_DUMPABLE, 0); /* no other process may read our memory and environment */
    r = stage_begin(&s->stage, &s->stage_opts, opt->facts, &s->input, err);
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
