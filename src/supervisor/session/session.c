/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox before its start: engine, workspace, guard, network, and the ladder of rungs. */
#include "supervisor/session/session.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/settings.h"
#include "engine/native/native.h"
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
    if (set->volumes.len || (mode != WORKSPACE_SYNC && set->n_substitutes))
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
    uint64_t budget = s->opt->settings->rollback;
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

    if (set->network == NETWORK_NONE || s->engine != &engine_native) {
        if (set->ssh_agent == SSH_AGENT_ON)
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
