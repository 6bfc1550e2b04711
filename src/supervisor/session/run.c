/* SPDX-License-Identifier: Apache-2.0 */
/* One run from beginning to end, and what it prints and returns about its rung and its limits. */
#include "supervisor/session/run.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "config/load/paths.h"
#include "config/load/seldom.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "proto/initmsg.h"
#include "registry/running.h"
#include "supervisor/control/control.h"
#include "supervisor/session/audit_run.h"
#include "supervisor/session/run_loop.h"
#include "supervisor/session/session.h"
#include "supervisor/session/sweep.h"
#include "supervisor/terminal/stdio.h"
#include "supervisor/terminal/tty.h"

unsigned run_needs(const struct settings *s) {
    unsigned needs = ENFORCES_FILES | ENFORCES_SYSCALLS | ENFORCES_END;

    needs |= s->net.mode != NETWORK_FULL ? ENFORCES_NETWORK : 0;
    needs |= s->net.mode != NETWORK_NONE ? ENFORCES_NAMES : 0;
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

    if (e->refusal)
        return err_set(err, -ENOTSUP, "engine %s: %s", e->name, e->refusal);
    if (e->for_tests && e->probe(state, names, ARRAY_LEN(state)) > 0)
        have = state[0].keeps;
    missing = run_needs(s) & ~have;
    for (int i = 0; i < GUARANTEE_COUNT; i++)
        if (missing & (1u << i))
            buf_addf(&list, "%s%s", list.len ? ", " : "", guarantee_names[i]);
    if (missing)
        return err_set(err, -ENOTSUP, "engine '%s' does not enforce what these settings need: %s%s", e->name, buf_str(&list),
                       missing == ENFORCES_NAMES ? " (it has no network; use --network none, or another engine)" : "");
    return 0;
}

struct run_state {
    struct session session;
    struct stdio io;
    struct run_result *result;
    int signals;
    struct audit *audit; /* NULL: none */
    bool recorded;       /* the start is in it */
    struct running listed;
};

static unsigned tty_flags(const struct stdio *io) {
    static const unsigned flag[3] = {INIT_FLAG_TTY_STDIN, INIT_FLAG_TTY_STDOUT, INIT_FLAG_TTY_STDERR};
    unsigned flags = io->plan.pty ? INIT_FLAG_TTY : 0;

    for (int i = 0; i < 3; i++)
        flags |= io->plan.way[i] == STDIO_WAY_PTY ? flag[i] : 0;
    return flags;
}

/* For `bawn ps` and `top`, while the command is starting. One that cannot be listed runs all the same. */
static void list_run(struct run_state *run) {
    const struct run_options *opt = run->session.opt;
    const char *place = paths_getenv(opt->facts->environ_, "XDG_RUNTIME_DIR");
    CLEANUP(closep) int runtime = -1;
    char pid[24];
    struct err ignored = {0};
    struct box b = {
        .name = (char *)(uintptr_t)(opt->name ? opt->name : pid),
        .info = {.workspace = (char *)(uintptr_t)opt->facts->workspace, .options = {.v = opt->argv, .len = opt->argc}},
        .state = {.pid = getpid(), .since_ns = clock_mark()}};

    if (place && access(place, F_OK) < 0) /* a folder of the system's, which is not for us to make */
        return;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    b.state.start_time = process_start_time(b.state.pid);
    session_describe(&run->session, opt->settings->profile, &b.state);
    if (control_open_folder(opt->facts->environ_, &runtime, &ignored) == 0)
        running_enter(runtime, &b, &run->listed);
    box_state_done(&b.state);
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
    run->result->times[RUN_TIME_COMMAND] = clock_mark();
    cgroup_sweep(&run->session.sandbox.cgroup_host); /* while the command is starting: costs it nothing */
    list_run(run);
    stdio_close_inside(&run->io);
    if (!run->io.plan.pty)
        stdio_start(&run->io);
    return loop_run(&l);
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
    run->result->times[RUN_TIME_ENDED] = clock_mark();
    /* Everything inside is dead before what is left in pipes and the pty is forwarded, so that the end comes for sure. */
    session_stop(s);
    running_leave(&run->listed);
    loop_drain(&(struct loop){.io = &run->io, .signals = run->signals});
    session_limits(s, run->result);
    if (run->result->hit[RUN_LIMIT_TIME])
        run->result->status = EXIT_TIMEOUT;
    run->result->status = stdio_status(&run->io, run->result->status);
    session_finish(s);
    if (run->listed.found_dead) /* their homes may be large: not while the command runs */
        sweep_private(s->opt->facts->environ_, s->opt->facts->home);
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
                                  .tenant = "",
                                  .user = s->opt->facts->user};

    snprintf(pid, sizeof pid, "%d", (int)getpid());
    return audit_run_open(s->opt->facts->environ_, s->opt->facts->home, &ids, &run->audit, err);
}

static int record_start(void *arg, const struct session *s, struct err *err) {
    struct run_state *run = arg;
    int r = audit_run_start(run->audit, &s->plan, s->opt->settings, s->engine->name, true, err);

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
    struct run_state run = {.session = SESSION_INIT, .result = ret, .signals = -1, .listed = RUNNING_INIT};
    int r;

    *ret = (struct run_result){.times = {clock_mark()}};
    r = session_prepare(&run.session, opt, opt->input, opt->name, err);
    if (!run.session.stage.opt) /* nothing was made yet */
        return r;
    ret->engine = run.session.engine->name;
    r = r < 0 ? r : loop_signals(&run.session.old_mask, &run.signals, err);
    if (opt->parent) /* it blocked them so that none was lost until now; the command must get them */
        sigemptyset(&run.session.old_mask);
    r = r < 0 ? r : open_audit(&run, err);
    run.session.planned = record_start;
    run.session.arg = &run;
    r = r < 0 ? r : run_with_stdio(&run, err);
    ret->wants_copy = r < 0 && run.session.wants_copy;
    session_end(&run.session, ret);
    ret->times[RUN_TIME_REVIEWED] = clock_mark();
    record_end(&run, err);
    session_done(&run.session);
    audit_free(run.audit);
    closep(&run.signals);
    ret->times[RUN_TIME_DONE] = clock_mark();
    return r;
}

/* -- reports -------------------------------------------------------------------------------------------------------------- */

const char *const run_time_names[RUN_TIMES] = {"begun", "command", "ended", "reviewed", "done"};
const char *const run_limit_names[RUN_LIMIT_COUNT] = {"memory", "pids", "disk", "time", "private"};

void run_announce_rung(const struct plan *p) {
    enum { ABI_SIGNALS = 6 };
    const char *lacks = rung_lacks(p->rung);
    bool bare = !rung_has_root(p->rung);
    size_t hidden = 0;

    if (!lacks)
        return;
    for (size_t i = 0; i < p->n_steps; i++)
        hidden += p->steps[i].kind == STEP_HIDE;
    log_line("weaker sandbox (%s rung), %s namespaces are not available here; %s%s%s (see 'bawn doctor --fix')",
             rung_names[p->rung], bare ? "user" : "network", lacks,
             bare && p->landlock_abi < ABI_SIGNALS ? ", your other processes can be signalled" : "",
             bare && hidden ? ", what .sandboxignore hides in the workspace is visible" : "");
}

void run_announce_limits(const struct plan *p, const struct cgroup *cg, const struct host_facts *facts) {
    const struct limits *l = &p->limits;
    bool cpu = l->cpus_milli && !cg->enforces.cpu, memory = l->memory && !cg->enforces.memory,
         pids = l->pids && !cg->enforces.pids;

    if ((!cpu && !memory && !pids) || !seldom_due(facts->environ_, facts->home, "limits"))
        return;
    log_note("limits without a cgroup (%s):%s%s%s", cg->why[0] ? cg->why : "none is available",
             memory ? " memory by watchdog;" : "", cpu ? " CPUs by affinity, whole ones only;" : "",
             pids ? " processes by rlimit" : "");
}

void run_result_done(struct run_result *r) {
    free(TAKE_PTR(r->network));
}

static const enum setting limit_setting[RUN_LIMIT_COUNT] = {SETTING_MEMORY, SETTING_PIDS, SETTING_DISK, SETTING_TIMEOUT,
                                                            SETTING_TMP};

/* "profile tight (/home/u/.config/bawn/profiles/tight.json)" is "profile tight" in one line. */
static int short_len(const char *origin) {
    const char *path = strstr(origin, " (");

    return path ? (int)(path - origin) : (int)strlen(origin);
}

void run_report_limits(const struct run_result *r, const struct settings *s) {
    static const char *const what[RUN_LIMIT_COUNT] = {"memory", "process", "disk", "time", "home and /tmp"};
    const uint64_t most[RUN_LIMIT_COUNT] = {r->limits.memory, r->limits.pids, r->limits.disk, r->limits.timeout_ms,
                                            r->private_size};

    for (int i = 0; i < RUN_LIMIT_COUNT; i++) {
        const char *origin = s->origin[limit_setting[i]] ? s->origin[limit_setting[i]] : "built-in";
        char n[24];

        if (!r->hit[i])
            continue;
        if (i == RUN_LIMIT_TIME)
            format_duration(most[i], n);
        else if (i == RUN_LIMIT_PIDS)
            snprintf(n, sizeof n, "%" PRIu64, most[i]);
        else
            format_size(most[i], n);
        if (i == RUN_LIMIT_PRIVATE && !r->tmp_on_disk)
            log_line("the home and /tmp inside are full: they have %s in memory; --tmp-size gives more, on disk", n);
        else
            log_line("%s limit %s reached (%.*s)", what[i], n, short_len(origin), origin); /* without the path of the file */
    }
}

void run_report_json(const struct run_result *r, const struct settings *s, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_int(&j, "status", r->status);
    jsonout_int(&j, "signal", r->signal);
    jsonout_bool(&j, "started", r->started);
    jsonout_text(&j, "engine", r->engine);
    jsonout_text(&j, "rung", rung_names[r->rung]);
    jsonout_text(&j, "profile", s->profile);
    jsonout_text(&j, "workspace", workspace_mode_names[settings_workspace_mode(s)]);
    jsonout_u64(&j, "changes", r->changes);
    jsonout_text(&j, "run", r->run[0] ? r->run : NULL);
    jsonout_open(&j, "limits_hit", '[');
    for (int i = 0; i < RUN_LIMIT_COUNT; i++)
        if (r->hit[i])
            jsonout_text(&j, NULL, run_limit_names[i]);
    jsonout_close(&j, ']');
    if (r->network)
        buf_addf(out, ",%s", r->network);
    jsonout_key(&j, "duration_ms");
    buf_addf(out, "%" PRIu64 ".%03" PRIu64, r->duration_us / 1000, r->duration_us % 1000);
    jsonout_open(&j, "times_us", '{');
    for (int i = 0; i < RUN_TIMES; i++)
        jsonout_u64(&j, run_time_names[i], r->times[i] / 1000);
    jsonout_close(&j, '}');
    jsonout_u64(&j, "memory_peak", r->usage.memory_peak);
    jsonout_u64(&j, "cpu_us", r->usage.cpu_us);
    jsonout_open(&j, "enforced", '{');
    jsonout_bool(&j, "cpu", r->enforced.cpu);
    jsonout_bool(&j, "memory", r->enforced.memory);
    jsonout_bool(&j, "pids", r->enforced.pids);
    jsonout_close(&j, '}');
    jsonout_close(&j, '}');
    buf_addc(out, '\n');
}
