/* SPDX-License-Identifier: Apache-2.0 */
/* What a keeper writes down: its state, for those who look without asking, and the audit log. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/session/audit_run.h"

static void describe_sandbox(const struct keeper *k, struct box_state *s) {
    const struct session *x = &k->session;
    const struct limits *l = &x->plan.limits;
    const char *profile = k->opt->profile ? k->opt->profile : "";

    s->init = x->sandbox.pid;
    snprintf(s->engine, sizeof s->engine, "%s", x->engine->name);
    snprintf(s->rung, sizeof s->rung, "%s", rung_names[x->plan.rung]);
    snprintf(s->mode, sizeof s->mode, "%s", workspace_mode_names[x->plan.mode]);
    snprintf(s->profile, sizeof s->profile, "%s", profile);
    s->memory = l->memory;
    s->pids = l->pids;
    s->cpus_milli = l->cpus_milli;
    strv_done(&s->cgroups);
    for (unsigned i = 0; i < x->sandbox.cgroup.n; i++)
        strv_add(&s->cgroups, x->sandbox.cgroup.groups[i].path);
}

/* A state that cannot be written hurts those who look, not the sandbox: its life is the lock. */
void keep_save(struct keeper *k, enum box_phase phase) {
    struct box_state *s = &k->box->state;
    struct err err = {0};

    if (phase != k->phase || phase == BOX_STARTING) {
        s->since_ns = clock_mark();
        s->used_ns = phase == BOX_STARTING ? s->since_ns : s->used_ns;
    }
    k->phase = s->phase = phase;
    if (phase == BOX_STARTING) {
        s->pid = getpid();
        s->start_time = process_start_time(s->pid);
        s->init = 0;
        s->status = 0;
        s->why[0] = 0;
        box_boot_id(s->boot);
    }
    if (phase == BOX_RUNNING)
        describe_sandbox(k, s);
    if (phase == BOX_STOPPED || phase == BOX_FAILED)
        strv_done(&s->cgroups);
    if (box_save_state(k->box, &err) < 0)
        log_err(&err);
    k->at.saved_ms = clock_ms();
    k->at.save_ms = 0;
}

void keep_touch(struct keeper *k) {
    k->at.used_ms = clock_ms();
    k->box->state.used_ns = clock_mark();
    if (!k->at.save_ms)
        k->at.save_ms = MAX_OF(k->at.saved_ms + KEEP_SAVE_MS, k->at.used_ms);
}

/* The audit log ---------------------------------------------------------------------------------------------------- */

int keep_audit_start(void *arg, const struct session *s, struct err *err) {
    struct keeper *k = arg;

    return audit_run_start(k->audit, &s->plan, s->opt->settings, s->engine->name, err);
}

int keep_audit_exec(struct keeper *k, const struct keep_job *j, const struct exec_request *r, struct err *err) {
    return audit_run_exec(k->audit, j->id, r->argv, r->argc, r->cwd, err);
}

void keep_audit_exit(struct keeper *k, const struct keep_job *j) {
    uint64_t ms = clock_ms() - j->started_ms;

    if (j->end & EXEC_END_NOEXEC)
        audit_run_exit(k->audit, j->id, err_exec_status(j->status), 0, j->status, ms);
    else
        audit_run_exit(k->audit, j->id, process_exit_status(j->status), WIFSIGNALED(j->status) ? WTERMSIG(j->status) : 0, 0, ms);
}

void keep_audit_limit(struct keeper *k, enum run_limit which) {
    audit_run_limit(k->audit, which);
    audit_flush(k->audit); /* in the log before a client gets the answer */
    k->result.hit[which] = true;
}

void keep_audit_stop(struct keeper *k) {
    audit_run_landed(k->audit, &k->session.landing);
    audit_run_stop(k->audit, k->result.status, clock_ms() - k->at.begun_ms, k->result.changes, k->result.run);
}
