/* SPDX-License-Identifier: Apache-2.0 */
/* One run from beginning to end. */
#include "supervisor/session/run.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "proto/initmsg.h"
#include "supervisor/session/audit_run.h"
#include "supervisor/session/run_loop.h"
#include "supervisor/session/session.h"
#include "supervisor/terminal/stdio.h"
#include "supervisor/terminal/tty.h"

unsigned run_needs(const struct settings *s) {
    unsigned needs = ENFORCES_FILES | ENFORCES_SYSCALLS | ENFORCES_END;

    needs |= s->net.mode != NETWORK_FULL ? ENFORCES_NETWORK : 0;
    needs |= s->limits.cpus_milli ? ENFORCES_CPU : 0;
    needs |= s->limits.memory ? ENFORCES_MEMORY : 0;
    needs |= s->limits.pids ? ENFORCES_PIDS : 0;
    needs |= s->limits.disk ? ENFORCES_DISK : 0;
    needs |= s->limits.timeout_ms ? ENFORCES_TIME : 0;
    return needs;
}

/* What the engine can never enforce is a refusal here; what only this host lacks is found at the start. */
int run_check_engine(const struct engine_ops *e, const struct settings *s, struct err *err) {
    CLEANUP(buf_done) struct buf list = BUF_INIT(1024);
    struct engine_state state[4];
    const char *names[4];
    unsigned have = e->can_keep, missing;

    if (e->for_tests && e->probe(state, names, ARRAY_LEN(state)) > 0)
        have = state[0].keeps;
    missing = run_needs(s) & ~have;
    for (int i = 0; i < GUARANTEE_COUNT; i++)
        if (missing & (1u << i))
            buf_addf(&list, "%s%s", list.len ? ", " : "", guarantee_names[i]);
    if (missing)
        return err_set(err, -ENOTSUP, "engine '%s' does not enforce what these settings need: %s", e->name, buf_str(&list));
    return 0;
}

struct run_state {
    struct session session;
    struct stdio io;
    struct run_result *result;
    int signals;
    struct audit *audit; /* NULL: none */
    bool recorded;       /* the start is in it */
};

static unsigned tty_flags(const struct stdio *io) {
    static const unsigned flag[3] = {INIT_FLAG_TTY_STDIN, INIT_FLAG_TTY_STDOUT, INIT_FLAG_TTY_STDERR};
    unsigned flags = io->plan.pty ? INIT_FLAG_TTY : 0;

    for (int i = 0; i < 3; i++)
        flags |= io->plan.way[i] == STDIO_WAY_PTY ? flag[i] : 0;
    return flags;
}

static int watch_over(struct run_state *run, struct err *err) {
    const struct run_options *opt = run->session.opt;
    const struct run_network_opts network = {
        .io = &run->io, .name = opt->name, .audit = run->audit, .argv = opt->argv, .argc = opt->argc};
    struct loop l = {.session = &run->session,
                     .io = &run->io,
                     .signals = run->signals,
                     .parent = opt->parent,
                     .result = run->result,
                     .err = err};
    int r = session_begin(&run->session, &network, true, err);

    if (r < 0)
        return r;
    cgroup_sweep(&run->session.sandbox.cgroup_host); /* while the command is starting: costs it nothing */
    stdio_close_inside(&run->io);
    if (!run->io.plan.pty)
        stdio_start(&run->io);
    return loop_run(&l);
}

/* Everything inside is dead before what is left in pipes and the pty is forwarded, so that the end comes for sure. */
static void end_sandbox(struct run_state *run) {
    session_stop(&run->session);
    loop_drain(&(struct loop){.io = &run->io, .signals = run->signals});
    session_limits(&run->session, run->result);
    if (run->result->hit[RUN_LIMIT_TIME])
        run->result->status = EXIT_TIMEOUT;
}

static int run_inside(struct run_state *run, struct err *err) {
    struct session *s = &run->session;
    const struct session_how how = {.stdio = {run->io.inside[0], run->io.inside[1], run->io.inside[2]},
                                    .tty = tty_flags(&run->io)};
    uint64_t begun = clock_us();
    int r = session_start(s, &how, err);

    if (r < 0)
        return r;
    r = watch_over(run, err);
    end_sandbox(run);
    s->engine->finish(&s->sandbox);
    run->result->duration_us = clock_us() - begun;
    return r;
}

static int run_with_stdio(struct run_state *run, struct err *err) {
    const struct run_options *opt = run->session.opt;
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

/* -- audit ---------------------------------------------------------------------------------------------------------------- */

static int open_audit(struct run_state *run, struct err *err) {
    const struct session *s = &run->session;
    char pid[24];
    const struct audit_ids ids = {.log = "user",
                                  .sandbox = s->opt->name ? s->opt->name : pid, /* as in the network log */
                                  .run = s->stage.have ? s->stage.rd.name : "",
                                  .tenant = ""};

    snprintf(pid, sizeof pid, "%d", (int)getpid());
    return audit_run_open(s->opt->facts->environ_, s->opt->facts->home, &ids, &run->audit, err);
}

static int record_start(void *arg, const struct session *s, struct err *err) {
    struct run_state *run = arg;
    int r = audit_run_begin(run->audit, &s->plan, s->opt->settings, s->engine->name, err);

    run->recorded |= r == 0;
    return r;
}

static void record_end(struct run_state *run, const struct err *err) {
    const struct run_result *r = run->result;
    uint64_t ms = r->duration_us / 1000;

    if (!run->recorded)
        return;
    for (int i = 0; i < RUN_LIMIT_COUNT; i++)
        if (r->hit[i])
            audit_run_limit(run->audit, (enum run_limit)i);
    audit_run_landed(run->audit, &run->session.landing);
    if (run->session.launched)
        audit_run_exit(run->audit, 0, r->status, r->signal, r->exec_errno, ms);
    audit_run_stop(run->audit, run->session.launched ? r->status : err_exit_status(err), ms, r->changes, r->run);
}

int run_command(const struct run_options *opt, struct run_result *ret, struct err *err) {
    struct run_state run = {.session = SESSION_INIT, .result = ret, .signals = -1};
    int r;

    *ret = (struct run_result){0};
    r = session_prepare(&run.session, opt, opt->input, opt->name, err);
    if (!run.session.stage.opt) /* nothing was made yet */
        return r;
    ret->engine = run.session.engine->name;
    r = r < 0 ? r : loop_signals(&run.session.old_mask, &run.signals, err);
    r = r < 0 ? r : open_audit(&run, err);
    run.session.planned = record_start;
    run.session.arg = &run;
    r = r < 0 ? r : run_with_stdio(&run, err);
    session_end(&run.session, ret);
    record_end(&run, err);
    session_done(&run.session);
    audit_free(run.audit);
    closep(&run.signals);
    return r;
}
