/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a keeper: prepares and starts the sandbox, answers the starter, serves, and takes everything down again. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/session/audit_run.h"
#include "supervisor/session/box_run.h"
#include "supervisor/session/run_loop.h"
#include "supervisor/session/sweep.h"

/* The terminal was needed until now: a locked store of secrets is unlocked on it. */
static int leave_terminal(struct err *err) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return err_sys(err, -errno, "/dev/null");
    setsid(); /* fails only for the leader of a group, which a forked process is not */
    prctl(PR_SET_NAME, "bawn-keeper");
    return 0;
}

static int open_audit(struct keeper *k, struct err *err) {
    const struct host_facts *f = k->opt->run.facts;
    const struct audit_ids ids = {.log = k->box->info.id, .sandbox = k->box->info.id, .run = "", .tenant = ""};

    return audit_run_open(f->environ_, f->home, &ids, &k->audit, err);
}

/* What overlay, sync and worktree keep goes on where it ended; the other modes keep nothing aside. */
static const char *stage_name(const struct keeper *k) {
    enum workspace_mode mode = settings_workspace_mode(k->opt->run.settings);

    return mode == WORKSPACE_DIRECT || mode == WORKSPACE_RO ? NULL : k->box->name;
}

static int prepare_sandbox(struct keeper *k, const struct plan_input *input, struct err *err) {
    int r = open_audit(k, err);

    r = r < 0 ? r : session_prepare(&k->session, &k->opt->run, input, stage_name(k), err);
    r = r < 0 ? r : leave_terminal(err);
    return r < 0 ? r : loop_signals(&k->session.old_mask, &k->signals, err);
}

static int ask_root(struct keeper *k, struct err *err) {
    struct init_msg m = {.type = INIT_MSG_OPEN, .value = EXEC_OPEN_FOLDER, .job = k->next.open++};
    int control = k->session.sandbox.control, r;

    if (fcntl(control, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "control socket");
    r = keep_send(k, &m, "/", 1, NULL, 0);
    return r < 0 ? err_sys(err, r, "talk to bawn-init") : 0;
}

static int start_sandbox(struct keeper *k, struct err *err) {
    const struct host_facts *f = k->opt->run.facts;
    const struct session_how how = {.stdio = {-1, -1, -1}, .resident = true};
    const struct run_network_opts network = {.name = k->box->name, .audit = k->audit, .no_control = true};
    int r;

    sweep_if_due(f->environ_, f->home);
    k->session.planned = keep_audit_start;
    k->session.arg = k;
    r = session_start(&k->session, &how, err);
    r = r < 0 ? r : ask_root(k, err);
    r = r < 0 ? r : session_begin(&k->session, &network, false, err);
    r = r < 0 ? r : keep_listen(k, err);
    return r < 0 ? r : control_server_new(f->environ_, keep_command, k, &k->control, err);
}

void keep_is_running(struct keeper *k) {
    k->at.used_ms = clock_ms();
    keep_save(k, BOX_RUNNING);
    if (keep_tell(k, 0, NULL) < 0)
        keep_stop(k, -1, "the process that started it has ended");
    malloc_trim(0); /* hundreds of us may wait at once */
}

/* Nothing inside runs any more when clients and jobs hear of the end. */
static void end_sandbox(struct keeper *k) {
    struct session *s = &k->session;

    inside_thaw(k);
    if (k->phase == BOX_RUNNING) /* so that a client that finds no socket from here on gets the right message */
        keep_save(k, BOX_STOPPING);
    keep_unlisten(k);
    if (s->launched) {
        session_stop(s);
        jobs_end(k);
        session_limits(s, &k->result);
    }
    for (size_t i = 0; i < k->n_clients; i++) {
        client_flush(k, k->clients[i]);
        client_drop(k, k->clients[i]);
    }
    control_server_free(TAKE_PTR(k->control));
    if (s->launched)
        s->engine->finish(&s->sandbox);
    if (s->stage.opt)
        session_end(s, &k->result);
    if (s->launched)
        keep_audit_stop(k);
}

static void keeper_done(struct keeper *k) {
    keep_forget_outgoing(k);
    clients_sweep(k);
    free(k->clients);
    jobs_free(k);
    audit_free(k->audit);
    run_result_done(&k->result);
    session_done(&k->session);
    closep(&k->signals);
}

static void write_end(struct keeper *k, int r, const struct err *err) {
    struct box_state *s = &k->box->state;
    bool failed = r < 0 || !k->asked;

    s->status = failed ? err_exit_status(err) : 0;
    snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, failed ? err->msg : "");
    keep_save(k, failed ? BOX_FAILED : BOX_STOPPED);
}

int keep_run(struct keeper *k, struct err *err) {
    const struct host_facts *facts = k->opt->run.facts;
    struct plan_input input = *k->opt->run.input;
    CLEANUP(freep) char *home = str_dupf("%s/home", k->box->path);
    const struct settings *set = k->opt->run.settings;
    bool said = set->origin[SETTING_IDLE_TIMEOUT] && !str_starts(set->origin[SETTING_IDLE_TIMEOUT], "built-in");
    int r;

    if (!home)
        return err_oom(err);
    input.home.persistent = home;
    input.hostname = k->box->name;
    k->err = err;
    k->outbox.last = &k->outbox.first;
    k->at.begun_ms = k->at.used_ms = clock_ms();
    k->next.open = 1;
    k->next.job = keep_first_job(k);
    k->at.idle_ms = k->box->info.project && !said ? KEEP_PROJECT_IDLE_MS : set->idle_timeout_ms;
    box_rename_settle(facts->environ_, facts->home, k->box);
    sweep_groups(k->box); /* of its last life, if that was killed: the new state has other names */
    keep_save(k, BOX_STARTING);
    r = prepare_sandbox(k, &input, err);
    r = r < 0 ? r : start_sandbox(k, err);
    r = r < 0 ? r : keep_loop(k, err);
    k->ended = true;
    r = r < 0 ? r : k->asked ? 0 : err->code;
    k->result.status = r < 0 ? EXIT_SANDBOX : 0;
    end_sandbox(k);
    write_end(k, r, err);
    keeper_done(k);
    return r;
}
