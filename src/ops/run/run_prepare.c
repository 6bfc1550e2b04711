/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what a run needs, and plans it. */
#include "ops/run/run_prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "supervisor/network/policy_files.h"

void run_prepared_done(struct run_prepared *p) {
    settings_done(&p->settings);
    strv_done(&p->owned);
    run_hidden_done(&p->hidden);
    agent_run_done(&p->agent);
}

static int load_settings(struct run_prepared *p, struct err *err) {
    const struct run_request *q = p->request;
    const struct settings_sources src = {.flags = &q->flags,
                                         .agent = q->agent,
                                         .workspace = p->facts.workspace,
                                         .home = p->facts.home,
                                         .environ_ = p->facts.environ_};

    return settings_load(&src, &p->settings, err);
}

static int prepare_agent(struct run_prepared *p, struct err *err) {
    const struct run_request *q = p->request;
    const struct agent_wanted wanted = {
        .name = q->agent, .argv = q->argv, .argc = q->argc, .dry_run = q->dry_run, .notice = q->notice};
    int r = agent_run_prepare(&p->agent, &wanted, &p->facts, &p->settings, err);

    if (r > 0) {
        p->input.home.agent = &p->agent.home;
        p->input.argv = p->agent.argv.v;
        p->input.argc = p->agent.argv.len;
    }
    return r;
}

int run_prepare(const struct run_request *q, struct run_prepared *p, struct err *err) {
    int r;

    p->request = q;
    p->input.argv = q->argv;
    p->input.argc = q->argc;
    if (q->dir && chdir(q->dir) < 0)
        return err_sys(err, -errno, "workspace '%s'", q->dir);
    r = host_facts(&p->facts, &p->owned, err);
    r = r < 0 ? r : load_settings(p, err);
    if (r < 0 || p->settings.mode == MODE_OFF)
        return r;
    p->input.workspace.hidden = &p->hidden.paths;
    p->input.workspace.elsewhere = &p->hidden.elsewhere;
    r = run_hide(&p->facts, &p->settings, !q->dry_run, &p->hidden, err);
    r = r < 0 || !q->agent ? r : prepare_agent(p, err);
    return MIN_OF(r, 0);
}

/* A mistake in the network rules stops a run, so it is an error of the plan, too. */
static int check_rules(const struct run_prepared *p, struct err *err) {
    CLEANUP(policy_files_done) struct policy_files files = {0};
    CLEANUP(closep) int top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct policy_where where = {.settings = &p->settings,
                                       .workspace = p->facts.workspace,
                                       .workspace_fd = top,
                                       .home = p->facts.home,
                                       .environ_ = p->facts.environ_};

    if (p->settings.net.mode == NETWORK_NONE)
        return 0;
    return top < 0 ? err_sys(err, -errno, "open the workspace") : policy_files_load(&where, &files, err);
}

int run_plan(const struct run_prepared *p, struct plan *ret, struct err *err) {
    static char *shell[] = {"/bin/sh", NULL};
    struct plan_input in = p->input;
    int r = check_rules(p, err);

    in.pid = getpid();
    in.argv = in.argc ? in.argv : shell;
    in.argc = MAX_OF(in.argc, 1);
    return r < 0 ? r : plan_make(&p->settings, &p->facts, &in, RUNG_FULL, ret, err);
}

int run_unprotected(const struct run_prepared *p, struct err *err) {
    struct plan plan = {.argv = p->input.argv, .argc = p->input.argc};
    struct engine_request req = {.plan = &plan, .guard = -1};
    struct sandbox sb = SANDBOX_INIT;
    bool weaker;

    sigprocmask(SIG_SETMASK, NULL, &req.old_mask);
    return engine_none.start(&req, &sb, &weaker, err);
}
