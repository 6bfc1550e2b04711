/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a sandbox: the plan, and the ladder of rungs. */
#include <errno.h>

#include "base/log.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/seldom.h"
#include "config/settings.h"
#include "engine/native/native.h"
#include "engine/private_dir.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/session/session.h"
#include "supervisor/session/system_dir.h"

static int find_private_place(const struct host_facts *f, char **ret, struct err *err) {
    int r = paths_state_if_home(f->environ_, f->home, PLAN_PRIVATE, ret, err);

    if (r == 0 && !*ret)
        return err_set(err, -ENOENT,
                       "home and /tmp of this size are on disk, and there is neither a home for them nor XDG_STATE_HOME; "
                       "lower --tmp-size, or raise --memory to twice of it");
    return r;
}

static bool has_system(const struct session *s) {
    return s->opt->settings->system_view == SYSTEM_WRITABLE;
}

/* Where nothing can be mounted, and where home and /tmp are too large for memory. */
static int make_private_dir(struct session *s, enum rung rung, struct err *err) {
    CLEANUP(freep) char *place = NULL;
    bool on_disk = plan_tmp_on_disk(s->opt->settings, rung) || (has_system(s) && !s->input.home.persistent);
    int r = on_disk ? find_private_place(s->opt->facts, &place, err) : 0;

    if (r < 0 || (!on_disk && rung_has_root(rung)))
        return r;
    private_dir_sweep(place);
    r = private_dir_make(place, &s->private_dir, err);
    s->input.private_dir = s->private_dir.path;
    return r;
}

static int make_plan(struct session *s, enum rung rung, struct err *err) {
    int r;

    plan_done(&s->plan);
    r = make_private_dir(s, rung, err);
    if (r == 0 && has_system(s)) {
        free(s->system_dir);
        s->input.system_dir = s->system_dir = system_dir_path(s->input.home.persistent, s->private_dir.path);
        r = s->system_dir ? 0 : err_oom(err);
    }
    r = r < 0 ? r : plan_make(s->opt->settings, s->opt->facts, &s->input, rung, &s->plan, err);
    return r < 0 || !s->plan.writable_system ? r : system_dir_make(s->system_dir, &s->plan, err);
}

static int start_rung(struct session *s, const struct session_how *how, enum rung rung, enum rung *ret_next, struct err *err) {
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

    *ret_next = RUNG_FULL;
    if (r == 0 && s->planned)
        r = s->planned(s->arg, s, err);
    if (s->stage.have) /* what the command changes has a later time than what is there */
        req.not_before_ns = MAX_OF(s->stage.begun_ns, s->stage.made_ns);
    if (r == 0 && !s->engine->waits)
        clock_pass(req.not_before_ns);
    r = r < 0 ? r : s->engine->start(&req, &s->sandbox, ret_next, err);
    if (r < 0)
        session_finish(s);
    return r;
}

/* Without mounts nothing can be laid over a file, and nothing over a folder. */
static int check_bare_workspace(struct session *s, struct err *err) {
    const struct settings *set = s->opt->settings;
    const struct strv *hidden = s->input.workspace.hidden;
    enum workspace_mode mode = settings_workspace_mode(set);
    char more[40] = "";

    s->wants_copy = mode == WORKSPACE_OVERLAY;
    if (mode == WORKSPACE_OVERLAY || mode == WORKSPACE_WORKTREE)
        return err_set(
            err, -EOPNOTSUPP,
            "--workspace %s needs user namespaces, which are not available here; use --workspace sync (see 'bawn doctor --fix')",
            workspace_mode_names[mode]);
    if (set->workspace.volumes.len || (mode != WORKSPACE_SYNC && set->workspace.n_substitutes))
        return err_set(
            err, -EOPNOTSUPP,
            "workspace.volumes and workspace.substitute need user namespaces, which are not available here (see 'bawn doctor --fix')");
    if (mode != WORKSPACE_SYNC && hidden && hidden->len) {
        s->wants_copy = mode == WORKSPACE_DIRECT;
        if (hidden->len > 1)
            snprintf(more, sizeof more, " and %zu more", hidden->len - 1);
        return err_set(err, -EOPNOTSUPP,
                       "without user namespaces '%s'%s cannot be hidden in the workspace itself; use --workspace sync "
                       "(see 'bawn doctor --fix')",
                       hidden->v[0], more);
    }
    return 0;
}

/* The guard makes the sockets where it can be: without it there is no network. */
static int fit_network(struct session *s, struct err *err) {
    int r = native_can_guard();

    if (r == 0)
        return 0;
    s->input.no_network = true;
    return run_network_give_up(&s->network, err);
}

/* Once a day, because the engines have to be asked. The user decides: a container has the workspace as a copy. */
static void recommend_engine(const struct session *s) {
    enum { BARE_LACKS = ENFORCES_PROCESSES | ENFORCES_HIDING };
    const struct settings *set = s->opt->settings;
    const struct engine_ops *better;

    if (!str_eq(set->engine, "auto") || !seldom_due(s->opt->facts->environ_, s->opt->facts->home, "engine"))
        return;
    better = engine_better(ENFORCES_EVERYTHING & ~(unsigned)BARE_LACKS);
    if (better && (!set->allowed_engines.len || strv_has(&set->allowed_engines, better->name)))
        log_line("%s is available and enforces more here: use --engine %s", better->name, better->name);
}

/* What has to be otherwise than in the full rung. */
static int prepare_weaker(struct session *s, enum rung rung, struct err *err) {
    int r = rung_has_root(rung) ? 0 : check_bare_workspace(s, err);

    s->sandbox = (struct sandbox)SANDBOX_INIT;
    if (r >= 0 && s->network.on && !s->input.no_network)
        r = fit_network(s, err);
    if (!rung_has_root(rung))
        recommend_engine(s);
    return r;
}

/* Down the ladder: only in auto mode, only for the one reason the next rung is made for, and announced. */
int session_start(struct session *s, const struct session_how *how, struct err *err) {
    enum rung next = RUNG_FULL;
    int r = start_rung(s, how, RUNG_FULL, &next, err);

    while (r < 0 && next != RUNG_FULL) {
        enum rung rung = next;

        if (s->opt->settings->mode == MODE_REQUIRE)
            return err_ctx(err, r, "--sandbox=require: the full sandbox is not available here (see 'bawn doctor --fix')");
        next = RUNG_FULL;
        r = prepare_weaker(s, rung, err);
        r = r < 0 ? r : start_rung(s, how, rung, &next, err);
    }
    if (r < 0)
        return r;
    run_announce_rung(&s->plan);
    s->launched = true;
    if (rung_has_root(s->plan.rung) && s->plan.landlock_abi < 1)
        log_line("no Landlock on this kernel: the second fence around files is missing (the mounts still hold)");
    run_announce_limits(&s->plan, &s->sandbox.cgroup, s->opt->facts);
    return 0;
}
