/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sandbox/keep_alive.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "ops/sandbox/exec_run.h"
#include "ops/sandbox/sandbox_jobs.h"
#include "ops/sandbox/sandbox_pick.h"
#include "ops/sandbox/sandbox_start.h"
#include "os/fd.h"
#include "proto/execmsg.h"

enum { STOP_SECONDS = 5, LOOK_AGAIN_NS = 5 * 1000 * 1000 };

struct shared {
    const struct run_args *args;
    const struct host_facts *facts;
    const struct settings *settings;
    struct sandbox_start *start;
    char name[BOX_NAME_MAX + 1], digest[SHA256_HEX_SIZE];
    enum rung rung;
    bool limited; /* by control groups */
};

bool keep_alive_wanted(const struct run_args *a, const struct settings *s) {
    return s->keep_alive && s->mode != MODE_OFF && !a->name && !a->agent && !a->dry_run && !a->each && a->result_fd == 0;
}

static void take_facts(struct shared *x, const struct box *b) {
    x->limited = b->state.cgroups.len > 0;
    for (int i = 0; i < RUNG_COUNT; i++)
        if (str_eq(b->state.rung, rung_names[i]))
            x->rung = (enum rung)i;
}

/* The rules that it was started with are not those of this run. Work is not thrown away for that. */
static int replace(struct box *b, struct err *err) {
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
    log_line("sandbox '%s' is started anew: the settings have changed", b->name);
    r = sandbox_ask_stop(b, STOP_SECONDS, err);
    if (r == 0)
        sandbox_wait_end(b, -1);
    return r < 0 && r != -ESRCH ? r : -EAGAIN;
}

/* -EAGAIN: look again, it is not there yet, or not any more. */
static int join(struct shared *x, int *ret, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    CLEANUP(closep) int sock = -1;
    const struct sandbox_pick_opts pick = {.name = x->name};
    char digest[SHA256_HEX_SIZE];
    int r = exec_connect(environ, x->facts->home, x->name, &sock, err);

    r = r < 0 ? r : sandbox_pick(&pick, &p, err);
    if (r < 0)
        return r;
    sandbox_started_digest(&p.box, digest);
    if (!str_eq(digest, x->digest))
        return replace(&p.box, err);
    take_facts(x, &p.box);
    *ret = TAKE_FD(sock);
    return 0;
}

/* --env is for this run's command: the next one must not find it there. */
static int start_it(const struct shared *x, struct err *err) {
    struct settings_flags flags = x->args->flags;
    const struct settings_sources src = {
        .flags = &flags, .workspace = x->facts->workspace, .home = x->facts->home, .environ_ = x->facts->environ_};
    CLEANUP(settings_done) struct settings plain = {0};
    int r;

    if (!flags.env.len)
        return sandbox_start_loaded(x->start, x->args, x->facts, x->settings, err);
    flags.env = (struct strv){0};
    r = settings_load(&src, &plain, err);
    return r < 0 ? r : sandbox_start_loaded(x->start, x->args, x->facts, &plain, err);
}

static int join_or_start(struct shared *x, int *ret, struct err *err) {
    static const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    int r;

    for (;;) {
        *err = (struct err){0};
        r = join(x, ret, err);
        if (r == -ENOENT || r == -ENOTCONN) {
            *err = (struct err){0};
            r = start_it(x, err);
            if (r == 0)
                continue;
            r = r == -EBUSY ? -EAGAIN : r; /* somebody else starts it */
        }
        if (r != -EAGAIN)
            return r;
        nanosleep(&pause, NULL);
    }
}

static int make_args(const struct shared *x, const bool closed[3], struct exec_args *ret, struct err *err) {
    const struct run_args *a = x->args;
    int r = exec_args_terminal(ret, err);

    ret->name = x->name;
    ret->timeout_ms = x->settings->timeout_ms;
    ret->tty = a->tty;
    ret->no_tty = a->no_tty;
    ret->argv = a->argv;
    ret->argc = a->argc;
    for (int i = 0; i < 3; i++)
        ret->closed[i] = closed[i];
    for (size_t i = 0; r == 0 && i < x->settings->n_env; i++) {
        const struct env_spec *e = &x->settings->env[i];

        if (!e->value)
            r = exec_args_env(ret, e->name, err);
        else if (strv_addf(&ret->env, "%s=%s", e->name, e->value) < 0)
            r = err_oom(err);
    }
    return r;
}

static void take_result(const struct shared *x, const struct exec_result *e, struct run_result *ret) {
    const struct settings *s = x->settings;

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
    ret->limits.timeout_ms = s->timeout_ms;
    ret->limits.memory = s->memory;
    if (settings_workspace_mode(s) != WORKSPACE_DIRECT && settings_workspace_mode(s) != WORKSPACE_RO)
        snprintf(ret->run, sizeof ret->run, "%s", x->name);
}

int keep_alive_run(const struct run_args *a, const struct host_facts *facts, const struct settings *s,
                   struct sandbox_start *start, const bool closed[3], struct run_result *ret, struct err *err) {
    struct shared x = {.args = a, .facts = facts, .settings = s, .start = start, .rung = RUNG_FULL};
    CLEANUP(exec_args_done) struct exec_args args = {0};
    CLEANUP(closep) int sock = -1;
    struct exec_result result;
    int r = sandbox_digest(a, s, x.digest, err);

    box_name_for(facts->workspace, x.name);
    start->name = x.name;
    start->project = true;
    r = r < 0 ? r : join_or_start(&x, &sock, err);
    r = r < 0 ? r : make_args(&x, closed, &args, err);
    r = r < 0 ? r : exec_args_run(&args, sock, &result, err);
    if (r < 0)
        return r;
    exec_say_stopped(x.name, result.end);
    take_result(&x, &result, ret);
    return 0;
}
