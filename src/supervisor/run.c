#include "supervisor/run.h"

#include <errno.h>
#include <limits.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "engine/native/native.h"
#include "os/fd.h"
#include "proto/initmsg.h"
#include "supervisor/loop.h"
#include "supervisor/stdio.h"
#include "supervisor/tty.h"

struct run {
    const struct run_options *opt;
    const struct engine_ops *engine;
    struct host_facts facts;
    struct plan plan;
    struct sandbox sandbox;
    struct stdio io;
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

/* Down the ladder: only in auto mode, only for the one reason the next rung is made for, and announced. */
static int start(struct run *run, struct err *err) {
    bool weaker = false;
    int r = start_rung(run, RUNG_FULL, &weaker, err);

    if (r >= 0 || !weaker)
        return r;
    if (run->opt->settings->mode == MODE_REQUIRE)
        return err_ctx(err, r, "--sandbox=require: user namespaces cannot be had here (see 'bawn doctor --fix')");
    run->sandbox = (struct sandbox)SANDBOX_INIT;
    r = start_rung(run, RUNG_LANDLOCK, &weaker, err);
    if (r >= 0)
        run_announce_rung(&run->plan);
    return r;
}

static void note_missing_fence(const struct run *run) {
    if (run->plan.rung == RUNG_FULL && run->plan.landlock_abi < 1)
        log_line("no Landlock on this kernel: the second fence around files is missing (the mounts still hold)");
}

static int watch_over(struct run *run, struct err *err) {
    struct loop l = {.sandbox = &run->sandbox, .io = &run->io, .signals = run->signals, .result = run->result, .err = err};

    watch_init(&l.watch, &run->plan.limits, run->plan.workspace_writable, run->sandbox.pid);
    stdio_close_inside(&run->io);
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

static int run_inside(struct run *run, struct err *err) {
    uint64_t begun = now_us();
    int r = start(run, err);

    if (r < 0)
        return r;
    note_missing_fence(run);
    run_announce_limits(&run->plan, &run->sandbox.cgroup);
    r = watch_over(run, err);
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

int run_command(const struct run_options *opt, struct run_result *ret, struct err *err) {
    struct run run = {.opt = opt, .facts = *opt->facts, .sandbox = SANDBOX_INIT, .result = ret, .signals = -1};
    const struct settings *s = opt->settings;
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
    r = loop_signals(&run.old_mask, &run.signals, err);
    r = r < 0 ? r : run_with_stdio(&run, err);
    plan_done(&run.plan);
    closep(&run.signals);
    return r;
}
