#include "supervisor/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/paths.h"
#include "config/settings.h"
#include "engine/native/native.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"
#include "supervisor/loop.h"
#include "supervisor/run_network.h"
#include "supervisor/stage.h"
#include "supervisor/stdio.h"
#include "supervisor/tty.h"
#include "workspace/ignore.h"

struct run {
    const struct run_options *opt;
    const struct engine_ops *engine;
    struct host_facts facts;
    struct plan plan;
    struct sandbox sandbox;
    struct stdio io;
    struct stage stage;
    bool launched; /* the sandbox was started, so the command may have changed something */
    struct guard guard;
    struct run_network network;
    int guard_inside;                /* the guard's end of the socket, until it is handed over */
    struct ignore *protect, *no_new; /* the guard's rules: what may not be written, and not be made */
    struct run_result *result;
    char private_dir[128];
    int signals;
    sigset_t old_mask;
};

static uint64_t now_us(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static unsigned tty_flags(const struct stdio *io) {
    static const unsigned flag[3] = {INIT_FLAG_TTY_STDIN, INIT_FLAG_TTY_STDOUT, INIT_FLAG_TTY_STDERR};
    unsigned flags = io->plan.pty ? INIT_FLAG_TTY : 0;

    for (int i = 0; i < 3; i++)
        flags |= io->plan.way[i] == STDIO_WAY_PTY ? flag[i] : 0;
    return flags;
}

static int make_plan(struct run *run, enum rung rung, struct err *err) {
    int r;

    plan_done(&run->plan);
    if (rung == RUNG_LANDLOCK && !run->private_dir[0]) {
        private_dir_sweep();
        r = private_dir_make(run->private_dir, sizeof run->private_dir, err);
        if (r < 0)
            return r;
        run->facts.private_dir = run->private_dir;
    }
    r = plan_make(run->opt->settings, &run->facts, rung, run->opt->argv, run->opt->argc, &run->plan, err);
    if (r < 0 && run->private_dir[0])
        private_dir_remove(run->private_dir);
    return r;
}

static int start_rung(struct run *run, enum rung rung, bool *ret_weaker, struct err *err) {
    struct engine_request req = {.settings = run->opt->settings,
                                 .plan = &run->plan,
                                 .stdio = {run->io.inside[0], run->io.inside[1], run->io.inside[2]},
                                 .tty = tty_flags(&run->io),
                                 .guard = run->guard_inside,
                                 .hide = run->no_new,
                                 .protect = run->protect,
                                 .old_mask = run->old_mask};
    int r = make_plan(run, rung, err);

    if (r < 0)
        return r;
    r = run->engine->start(&req, &run->sandbox, ret_weaker, err);
    if (r < 0) {
        run->engine->finish(&run->sandbox);
        if (run->private_dir[0])
            private_dir_remove(run->private_dir);
    }
    return r;
}

/* Without mounts nothing can be laid over a file, and nothing over a folder. */
static int check_bare_workspace(const struct run *run, struct err *err) {
    enum workspace_mode mode = settings_workspace_mode(run->opt->settings);

    if (mode == WORKSPACE_OVERLAY || mode == WORKSPACE_WORKTREE)
        return err_set(
            err, -EOPNOTSUPP,
            "--workspace %s needs user namespaces, which cannot be had here; use --workspace sync (see 'bawn doctor --fix')",
            workspace_mode_names[mode]);
    if (run->opt->settings->volumes.len || (mode != WORKSPACE_SYNC && run->opt->settings->n_substitutes))
        return err_set(
            err, -EOPNOTSUPP,
            "workspace.volumes and workspace.substitute need user namespaces, which cannot be had here (see 'bawn doctor --fix')");
    if (mode != WORKSPACE_SYNC && run->facts.hidden && run->facts.hidden->len)
        return err_set(err, -EOPNOTSUPP,
                       "without user namespaces '%s' and %zu more cannot be hidden in the workspace itself; use --workspace sync "
                       "(see 'bawn doctor --fix')",
                       run->facts.hidden->v[0], run->facts.hidden->len - 1);
    return 0;
}

/* Down the ladder: only in auto mode, only for the one reason the next rung is made for, and announced. */
static int start(struct run *run, struct err *err) {
    bool weaker = false;
    int r = start_rung(run, RUNG_FULL, &weaker, err);

    if (r >= 0 || !weaker)
        return r;
    if (run->opt->settings->mode == MODE_REQUIRE)
        return err_ctx(err, r, "--sandbox=require: user namespaces cannot be had here (see 'bawn doctor --fix')");
    run->sandbox = (struct sandbox)SANDBOX_INIT;
    r = check_bare_workspace(run, err);
    if (r >= 0 && run->network.on)
        r = run_network_give_up(&run->network, err);
    r = r < 0 ? r : start_rung(run, RUNG_LANDLOCK, &weaker, err);
    if (r >= 0)
        run_announce_rung(&run->plan);
    return r;
}

static void note_missing_fence(const struct run *run) {
    if (run->plan.rung == RUNG_FULL && run->plan.landlock_abi < 1)
        log_line("no Landlock on this kernel: the second fence around files is missing (the mounts still hold)");
}

/* Only where the host's own folder is shown, and where something can be mounted over a file. */
static int watch_names(const struct run *run, int upper, struct latecomers *ret, struct err *err) {
    enum workspace_mode mode = run->plan.mode;
    const struct latecomers_opts opts = {.workspace = run->stage.workspace,
                                         .pidfd = run->sandbox.pidfd,
                                         .upper = mode == WORKSPACE_OVERLAY ? upper : -1,
                                         .rules = run->opt->rules,
                                         .accepted = run->opt->accepted,
                                         .plan = &run->plan,
                                         .guard = &run->guard};

    if (run->plan.rung != RUNG_FULL || run->engine != &engine_native || mode == WORKSPACE_SYNC || mode == WORKSPACE_WORKTREE)
        return 0;
    return latecomers_init(ret, &opts, err);
}

static int watch_over(struct run *run, struct err *err) {
    CLEANUP(latecomers_done) struct latecomers late = LATECOMERS_INIT;
    struct loop l = {.sandbox = &run->sandbox,
                     .io = &run->io,
                     .signals = run->signals,
                     .latecomers = &late,
                     .guard = &run->guard,
                     .gate = run->network.gate,
                     .result = run->result,
                     .err = err};
    CLEANUP(closep) int grows = stage_growth(&run->stage);
    CLEANUP(closep) int caches = run->facts.caches ? open(run->facts.caches, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int r = watch_names(run, grows, &late, err);

    if (r < 0)
        return r;

    watch_init(&l.watch, &run->plan.limits, grows >= 0 ? grows : run->stage.workspace, run->plan.mode != WORKSPACE_RO,
               run->sandbox.pid);
    watch_also(&l.watch, caches);
    stdio_close_inside(&run->io);
    closep(&run->guard_inside);
    if (!run->io.plan.pty)
        stdio_start(&run->io);
    cgroup_sweep(&run->sandbox.cgroup_host); /* while the command is starting: costs it nothing */
    return loop_run(&l);
}

/* Everything inside is dead before what is left in pipes and the pty is forwarded, so that the end comes for sure. */
static void end(struct run *run) {
    struct cgroup_hits hits = {0};
    struct run_result *r = run->result;

    run->engine->stop(&run->sandbox);
    guard_finish(&run->guard);
    run_network_end(&run->network);
    loop_drain(&(struct loop){.io = &run->io, .signals = run->signals});
    cgroup_hits(&run->sandbox.cgroup, &hits);
    r->hit[RUN_LIMIT_MEMORY] |= hits.oom_kills > 0;
    r->hit[RUN_LIMIT_PIDS] |= hits.pids > 0;
    if (run->opt->want_usage)
        cgroup_usage(&run->sandbox.cgroup, &r->usage);
    if (r->hit[RUN_LIMIT_TIME])
        r->status = EXIT_TIMEOUT;
    r->enforced = run->sandbox.cgroup.enforces;
    r->limits = run->plan.limits;
    r->rung = run->plan.rung;
}

static int begin_network(struct run *run, struct err *err) {
    const struct run_network_opts opts = {.sandbox = &run->sandbox,
                                          .io = &run->io,
                                          .name = run->opt->name,
                                          .argv = run->opt->argv,
                                          .argc = run->opt->argc,
                                          .mask = run->old_mask};

    return run_network_begin(&run->network, &opts, err);
}

static int run_inside(struct run *run, struct err *err) {
    uint64_t begun = now_us();
    int r = start(run, err);

    if (r < 0)
        return r;
    run->launched = true;
    note_missing_fence(run);
    run_announce_limits(&run->plan, &run->sandbox.cgroup);
    r = begin_network(run, err);
    r = r < 0 ? r : watch_over(run, err);
    end(run);
    run->engine->finish(&run->sandbox);
    run->result->duration_us = now_us() - begun;
    return r;
}

static int run_with_stdio(struct run *run, struct err *err) {
    const struct run_options *opt = run->opt;
    struct stdio_opts io = {.fd = {0, 1, 2}, .wish = {.force_tty = opt->force_tty, .no_tty = opt->no_tty}};
    int r;

    for (int i = 0; i < 3; i++)
        if (opt->closed[i])
            io.fd[i] = -1;
    r = stdio_init(&run->io, &io, err);
    if (r < 0)
        return r;
    log_set_sink(tty_log_sink);
    r = run_inside(run, err);
    stdio_done(&run->io);
    log_set_sink(NULL);
    return r;
}

/* The journal of a run in direct mode begins with the first change. */
static int begin_journal(void *arg, struct journal **ret, struct err *err) {
    struct run *run = arg;
    const struct journal_opts opts = {.budget = run->opt->settings->rollback ? run->opt->settings->rollback : UINT64_MAX,
                                      .file_max = STAGE_KEPT_FILE_MAX};
    int r = stage_folder(&run->stage, err);

    return r < 0 ? r : journal_open(run->stage.rd.fd, true, &opts, ret, err);
}

/* Users without a home, as services have it, can work; they are told what they do not get. */
static bool can_record(const struct run *run) {
    struct err why = {0};

    if (run->stage.runs && (access(run->stage.runs, W_OK) == 0 || paths_make_dirs(run->stage.runs, &why) == 0))
        return true;
    log_line("what this run changes is not recorded (%s): there will be no review and no rollback",
             why.msg[0] ? why.msg : "no home, and no XDG_STATE_HOME");
    return false;
}

/* In direct mode what the command changes goes through the guard in bawn-init. */
static int make_guard(struct run *run, struct err *err) {
    int pair[2], r;

    if (run->stage.mode != WORKSPACE_DIRECT || run->engine != &engine_native)
        return 0;
    r = stage_protect(&run->stage, &run->protect, err);
    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "socket of the guard");
    run->guard_inside = pair[1];
    return guard_init(&run->guard, pair[0], run->stage.workspace, can_record(run) ? begin_journal : NULL, run, err);
}

/* Only the native engine makes a network that leads to a gate. */
static int prepare_network(struct run *run, struct err *err) {
    if (run->opt->settings->network == NETWORK_NONE || run->engine != &engine_native) {
        if (run->opt->settings->ssh_agent == SSH_AGENT_ON)
            log_line("no ssh-agent inside: it is reached through the gate, which a run without a network does not have");
        return 0;
    }
    return run_network_prepare(&run->network, run->opt->settings, &run->facts, run->stage.workspace, err);
}

static void end_network(struct run *run) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(1024 * 1024);

    if (run->network.gate)
        gatekeeper_report(run->network.gate);
    if (run->network.gate && run->opt->want_usage) {
        gatekeeper_json(run->network.gate, &json);
        run->result->network = buf_take(&json);
    }
    run_network_done(&run->network);
}

/* A failure here loses nothing, and does not change how the command ended. */
static void end_stage(struct run *run) {
    struct err err = {0};

    if (stage_end(&run->stage, run->result->status, &err) < 0)
        log_err(&err);
    run->result->changes = run->stage.changes;
    if (run->stage.have)
        snprintf(run->result->run, sizeof run->result->run, "%s", run->stage.rd.name);
}

int run_command(const struct run_options *opt, struct run_result *ret, struct err *err) {
    struct run run = {.opt = opt,
                      .facts = *opt->facts,
                      .sandbox = SANDBOX_INIT,
                      .result = ret,
                      .signals = -1,
                      .stage = STAGE_INIT,
                      .network = RUN_NETWORK_INIT,
                      .guard = GUARD_INIT,
                      .guard_inside = -1};
    const struct settings *s = opt->settings;
    const struct stage_opts stage = {.settings = s, .rules = opt->rules, .name = opt->name, .argv = opt->argv, .argc = opt->argc};
    int r;

    *ret = (struct run_result){0};
    run.engine = engine_find(str_eq(s->engine, "auto") ? "native" : s->engine, err);
    if (!run.engine)
        return err->code;
    ret->engine = run.engine->name;
    if (s->allowed_engines.len && !strv_has(&s->allowed_engines, run.engine->name))
        return err_set(err, -EPERM, "the organisation's policy does not allow engine '%s'", run.engine->name);
    r = run_check_engine(run.engine, s, err);
    if (r < 0)
        return r;
    prctl(PR_SET_DUMPABLE, 0); /* our memory and environment are nobody's business */
    r = stage_begin(&run.stage, &stage, &run.facts, err);
    r = r < 0 ? r : stage_no_new(&run.stage, &run.no_new, err);
    r = r < 0 ? r : make_guard(&run, err);
    r = r < 0 ? r : prepare_network(&run, err);
    r = r < 0 ? r : loop_signals(&run.old_mask, &run.signals, err);
    r = r < 0 ? r : run_with_stdio(&run, err);
    guard_report(&run.guard);
    end_network(&run);
    guard_done(&run.guard);
    closep(&run.guard_inside);
    ignore_freep(&run.protect);
    ignore_freep(&run.no_new);
    if (run.launched) /* also if we failed to watch over it: what was changed is kept, and nothing if it never began */
        end_stage(&run);
    else
        stage_undo(&run.stage);
    stage_done(&run.stage);
    plan_done(&run.plan);
    closep(&run.signals);
    return r;
}
