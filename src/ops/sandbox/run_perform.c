/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the command of a prepared run. */
#include "ops/sandbox/run_perform.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "ops/notice.h"
#include "ops/run/run_prepare.h"
#include "ops/sandbox/exec_run.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "proto/execmsg.h"

enum { STOP_SECONDS = 5, LOOK_AGAIN_NS = 5 * 1000 * 1000 };

struct shared {
    const struct run_prepared *p;
    char name[BOX_NAME_MAX + 1], digest[SHA256_HEX_SIZE];
    enum rung rung;
    bool limited; /* by control groups */
};

static void take_facts(struct shared *x, const struct box *b) {
    x->limited = b->state.cgroups.len > 0;
    for (int i = 0; i < RUNG_COUNT; i++)
        if (str_eq(b->state.rung, rung_names[i]))
            x->rung = (enum rung)i;
}

/* It was started with other settings than this run has. Commands that run in it are not ended for that. */
static int stop_outdated(const struct shared *x, struct box *b, struct err *err) {
    json_t *jobs;
    size_t running;
    int r = sandbox_jobs(b, &jobs, err);

    if (r < 0)
        return r;
    running = sandbox_jobs_running(jobs);
    json_decref(jobs);
    if (running)
        return err_set(
            err, -EBUSY,
            "the project's sandbox '%s' has other settings than this run, and %zu %s in it: wait for the end, end %s with 'bawn "
            "stop %s', or give this run a sandbox of its own with --name",
            b->name, running, running == 1 ? "command runs" : "commands run", running == 1 ? "it" : "them", b->name);
    notice_say(x->p->request->notice, "sandbox '%s' is started anew: the settings have changed", b->name);
    r = sandbox_ask_stop(b, STOP_SECONDS, err);
    if (r == 0)
        sandbox_wait_end(b, -1);
    return r < 0 && r != -ESRCH ? r : -EAGAIN;
}

/* -EAGAIN: try again, it is not there yet, or not any more. */
static int join_shared(struct shared *x, int *ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(closep) int sock = -1;
    const struct sandbox_pick_opts pick = {.name = x->name};
    char digest[SHA256_HEX_SIZE];
    int r = exec_connect(environ, x->p->facts.home, x->name, &sock, err);

    r = r < 0 ? r : sandbox_pick(&pick, &p, err);
    if (r < 0)
        return r;
    sandbox_started_digest(&p.box, digest);
    if (!str_eq(digest, x->digest))
        return stop_outdated(x, &p.box, err);
    take_facts(x, &p.box);
    *ret = TAKE_FD(sock);
    return 0;
}

/* --env is for this run's command: the next one must not find it there. */
static int start_shared(const struct shared *x, struct err *err) {
    const struct host_facts *facts = &x->p->facts;
    struct settings_flags flags = x->p->request->flags;
    const struct settings_sources src = {
        .flags = &flags, .workspace = facts->workspace, .home = facts->home, .environ_ = facts->environ_};
    CLEANUP(settings_done) struct settings plain = {0};
    int r;

    if (!flags.env.len)
        return sandbox_start_project(x->name, x->p, &x->p->settings, err);
    flags.env = (struct strv){0};
    r = settings_load(&src, &plain, err);
    return r < 0 ? r : sandbox_start_project(x->name, x->p, &plain, err);
}

static int join_or_start(struct shared *x, int *ret, struct err *err) {
    static const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    int r;

    for (;;) {
        *err = (struct err){0};
        r = join_shared(x, ret, err);
        if (r == -ENOENT || r == -ENOTCONN) {
            *err = (struct err){0};
            r = start_shared(x, err);
            if (r == 0)
                continue;
            r = r == -EBUSY ? -EAGAIN : r; /* another process starts it */
        }
        if (r != -EAGAIN)
            return r;
        nanosleep(&pause, NULL);
    }
}

static int make_args(const struct shared *x, struct exec_args *ret, struct err *err) {
    const struct run_request *q = x->p->request;
    const struct settings *s = &x->p->settings;
    int r = exec_args_terminal(ret, err);

    ret->name = x->name;
    ret->timeout_ms = s->limits.timeout_ms;
    ret->tty = q->tty;
    ret->no_tty = q->no_tty;
    ret->argv = x->p->input.argv;
    ret->argc = x->p->input.argc;
    for (int i = 0; i < 3; i++)
        ret->closed[i] = q->closed[i];
    for (size_t i = 0; r == 0 && i < s->n_env; i++) {
        const struct env_spec *e = &s->env[i];

        if (!e->value)
            r = exec_args_env(ret, e->name, err);
        else if (strv_addf(&ret->env, "%s=%s", e->name, e->value) < 0)
            r = err_oom(err);
    }
    return r;
}

static void take_result(const struct shared *x, const struct exec_result *e, struct run_result *ret) {
    const struct settings *s = &x->p->settings;

    *ret = (struct run_result){.status = e->status,
                               .signal = e->signal,
                               .started = e->started,
                               .exec_errno = e->exec_errno,
                               .engine = engine_native.name,
                               .rung = x->rung,
                               .enforced = {.cpu = x->limited, .memory = x->limited, .pids = x->limited},
                               .duration_us = e->duration_us};
    ret->hit[RUN_LIMIT_TIME] = (e->end & EXEC_END_TIMEOUT) != 0;
    ret->hit[RUN_LIMIT_MEMORY] = (e->end & EXEC_END_MEMORY) != 0;
    ret->hit[RUN_LIMIT_DISK] = (e->end & EXEC_END_DISK) != 0;
    ret->hit[RUN_LIMIT_PRIVATE] = (e->end & EXEC_END_PRIVATE) != 0;
    ret->hit[RUN_LIMIT_PIDS] = (e->end & EXEC_END_PIDS) != 0;
    ret->tmp_on_disk = plan_tmp_on_disk(s, x->rung) > 0;
    ret->private_size = s->limits.tmp ? s->limits.tmp : limits_tmp_in_memory(&s->limits);
    ret->limits.pids = s->limits.pids;
    ret->limits.disk = s->limits.disk;
    ret->limits.timeout_ms = s->limits.timeout_ms;
    ret->limits.memory = s->limits.memory;
    if (settings_workspace_mode(s) != WORKSPACE_DIRECT && settings_workspace_mode(s) != WORKSPACE_RO)
        snprintf(ret->run, sizeof ret->run, "%s", x->name);
}

static int run_in_project(const struct run_prepared *p, struct run_result *ret, struct err *err) {
    struct shared x = {.p = p, .rung = RUNG_FULL};
    CLEANUP(exec_args_done) struct exec_args args = {0};
    CLEANUP(closep) int sock = -1;
    struct exec_result result;
    int r = sandbox_digest(p, &p->settings, x.digest, err);

    box_name_for(p->facts.workspace, x.name);
    r = r < 0 ? r : join_or_start(&x, &sock, err);
    r = r < 0 ? r : make_args(&x, &args, err);
    r = r < 0 ? r : exec_args_run(&args, sock, &result, err);
    if (r < 0)
        return r;
    exec_say_stopped(p->request->alert, x.name, result.end);
    take_result(&x, &result, ret);
    return 0;
}

static int run_alone(const struct run_prepared *p, struct run_result *ret, struct err *err) {
    const struct run_request *q = p->request;
    const struct settings *s = &p->settings;
    struct settings copied = *s; /* borrows */
    struct run_options opt = {.settings = s,
                              .facts = &p->facts,
                              .input = &p->input,
                              .rules = p->hidden.rules,
                              .accepted = p->hidden.accepted,
                              .name = q->name,
                              .fresh = q->parent != 0,
                              .parent = q->parent,
                              .argv = p->input.argv,
                              .argc = p->input.argc,
                              .force_tty = q->tty,
                              .no_tty = q->no_tty,
                              .want_usage = q->want_usage,
                              .closed = {q->closed[0], q->closed[1], q->closed[2]}};

    int r = run_command(&opt, ret, err);

    if (r >= 0 || !ret->wants_copy)
        return r;
    /* Nothing can be laid over a file here. The inside gets a copy without what is hidden; what it changes is carried back as in sync mode. */
    copied.workspace.copied = true;
    notice_copy(q->notice, settings_holds_changes(&copied));
    opt.settings = &copied;
    run_result_done(ret);
    *err = (struct err){0};
    return run_command(&opt, ret, err);
}

int run_perform(const struct run_prepared *p, struct run_result *ret, struct err *err) {
    const struct run_request *q = p->request;
    bool shared = p->settings.keep_alive && !q->name && !q->agent && !q->parent;

    return shared ? run_in_project(p, ret, err) : run_alone(p, ret, err);
}
