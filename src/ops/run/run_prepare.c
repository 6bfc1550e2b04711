/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what a run needs, and plans it. */
#include "ops/run/run_prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "config/load/seldom.h"
#include "engine/engine.h"
#include "ops/run/run_ids.h"
#include "ops/run/run_nested.h"
#include "ops/tools/home_tools.h"
#include "os/fd.h"
#include "supervisor/network/policy_files.h"

void run_prepared_done(struct run_prepared *p) {
    settings_done(&p->settings);
    strv_done(&p->owned);
    run_hidden_done(&p->hidden);
    agent_run_done(&p->agent);
    plan_tools_done(&p->tools);
    if (p->input.image)
        run_image_done(&p->image);
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
    const struct agent_wanted wanted = {.name = q->agent,
                                        .argv = q->argv,
                                        .argc = q->argc,
                                        .dry_run = q->dry_run,
                                        .setup = q->agent_setup,
                                        .config = {.mode = q->agent_config, .confirm = q->confirm},
                                        .notice = q->notice};
    int r = agent_run_prepare(&p->agent, &wanted, &p->facts, &p->settings, err);

    if (r > 0) {
        p->input.home.agent = &p->agent.home;
        p->input.home.agent_env = &p->agent.preset.secret_env;
        p->input.argv = p->agent.argv.v;
        p->input.argc = p->agent.argv.len;
    }
    return r;
}

/* The folder above that git would find from here; NULL: none, or only the home, which is no workspace. */
static char *find_repository(const char *workspace, const char *home) {
    CLEANUP(freep) char *dir = strdup(workspace);
    char *slash;

    if (!dir || access(".git", F_OK) == 0)
        return NULL;
    while ((slash = strrchr(dir, '/')) && slash != dir) {
        CLEANUP(freep) char *git = NULL;

        *slash = 0;
        if (home && str_eq(dir, home))
            return NULL;
        git = str_dupf("%s/.git", dir);
        if (git && access(git, F_OK) == 0)
            return TAKE_PTR(dir);
    }
    return NULL;
}

/* Git inside says only that there is no repository. */
static int note_repository(struct run_prepared *p, struct err *err) {
    const struct host_facts *f = &p->facts;
    CLEANUP(freep) char *top = find_repository(f->workspace, f->home);
    char key[SHA256_HEX_SIZE];

    sha256_hex(f->workspace, strlen(f->workspace), key);
    if (!top || !seldom_due(f->environ_, f->home, key))
        return 0;
    return strv_addf(&p->settings.notes,
                     "git inside sees no repository: this folder is a part of the one in '%s' (use -C '%s' for that)", top,
                     top) < 0
               ? err_oom(err)
               : 0;
}

/* Variables that agents' own sandboxes pass to container engines. */
static const struct {
    const char *name, *why;
} of_containers[] = {
    {"SANDBOX_FLAGS", "those are options of container engines"},
    {"SANDBOX_SET_UID_GID", "files that are made inside belong to you in any case"},
};

static const char *engine_name(const struct settings *s) {
    return str_eq(s->engine, "auto") ? "native" : s->engine;
}

/* A mode that the engine does not have becomes a copy, with the same review: nothing is carried back that the mode would not have changed. */
static int fit_mode(struct run_prepared *p, struct err *err) {
    struct settings *s = &p->settings;
    const struct engine_ops *e = engine_find(engine_name(s), err);
    enum workspace_mode mode = settings_workspace_mode(s);

    if (!e || e->modes & 1u << mode)
        return e ? 0 : err->code;
    s->workspace.copied = true;
    return strv_addf(&s->notes, "engine %s has the workspace as a copy: %s", e->name,
                     mode == WORKSPACE_RO        ? "read-only"
                     : mode == WORKSPACE_OVERLAY ? "changes wait for 'bawn apply'"
                                                 : "changes are carried back at the end, except sensitive ones") < 0
               ? err_oom(err)
               : 0;
}

/* Nothing that was asked for is ignored in silence. What was typed for this run alone is refused. */
static int note_unused(struct run_prepared *p, struct err *err) {
    struct settings *s = &p->settings;
    const char *engine = engine_name(s), *origin = s->origin[SETTING_IMAGE] ? s->origin[SETTING_IMAGE] : "settings";
    const struct engine_ops *e = engine_find(engine, err);
    int r = 0;

    if (!e)
        return err->code;
    if (s->system_view == SYSTEM_WRITABLE && !e->has_system)
        return err_set(err, -EOPNOTSUPP,
                       "engine %s has no writable system (%s); use --engine native, or an image that has the packages", engine,
                       s->origin[SETTING_SYSTEM] ? s->origin[SETTING_SYSTEM] : "settings");
    if (s->image && !e->takes_image && str_starts(origin, "flag "))
        return err_usage(err, "--image: engine %s uses no image, inside are the programs of this machine; leave it out", engine);
    if (s->image && !e->takes_image)
        r = strv_addf(&s->notes, "image '%.200s' is not used, from %s: engine %s has the programs of this machine inside",
                      s->image, origin, engine);
    for (size_t i = 0; r >= 0 && (e == &engine_native || !e->takes_image) && i < ARRAY_LEN(of_containers); i++) {
        const char *value = paths_getenv(p->facts.environ_, of_containers[i].name);

        if (value && *value)
            r = strv_addf(&s->notes, "%s is not used by engine %s: %s", of_containers[i].name, engine, of_containers[i].why);
    }
    return r < 0 ? err_oom(err) : 0;
}

/* The engine whose programs inside are those of an image; NULL: they are this machine's. */
static const struct engine_ops *engine_of_image(const struct settings *s) {
    struct err ignored = {0};
    const struct engine_ops *e = engine_find(engine_name(s), &ignored);

    return e && e->takes_image && (s->image || e->own_image) ? e : NULL;
}

/* The programs of the home are for this machine's own root. A sandbox without a command (`bawn start`) has no use for the image's. */
static int prepare_image(struct run_prepared *p, const struct engine_ops *e, struct err *err) {
    const struct run_request *q = p->request;
    int r;

    p->image = (struct run_image)RUN_IMAGE_INIT;
    p->input.image = &p->image.plan;
    p->input.home.tools = NULL;
    r = e->image
            ? run_image_ask(e, p->settings.image ? p->settings.image : e->own_image, p->input.argv, p->input.argc, &p->image, err)
            : run_image_find(p->settings.image, p->input.argv, p->input.argc, q->dry_run, q->notice, &p->image, err);
    if (r == 0 && (p->input.argc || q->image_command)) {
        p->input.argv = p->image.argv.v;
        p->input.argc = p->image.argv.len;
    }
    return r;
}

static int allow_nested(struct run_prepared *p, struct err *err) {
    const struct engine_ops *e = engine_find(engine_name(&p->settings), err);

    return e ? run_nested_allow(p, e, err) : err->code;
}

int run_prepare(const struct run_request *q, struct run_prepared *p, struct err *err) {
    int r;

    p->request = q;
    p->input.argv = q->argv;
    p->input.argc = q->argc;
    if (q->dir && chdir(q->dir) < 0)
        return err_sys(err, -errno, "workspace '%s'", q->dir);
    if (q->agent_config && !q->agent)
        return err_usage(err, "--agent-config goes with --agent");
    if (q->agent_setup && (!q->agent || q->agent_config))
        return err_usage(err, "--agent-setup goes with --agent, and without --agent-config");
    r = host_facts(&p->facts, &p->owned, err);
    r = r < 0 ? r : load_settings(p, err);
    if (r < 0 || p->settings.mode == MODE_OFF)
        return r;
    r = plan_check_workspace(&p->facts, err);
    r = r < 0 ? r : note_unused(p, err);
    r = r < 0 || !p->settings.nested ? r : allow_nested(p, err);
    r = r < 0 ? r : run_ids(p, err);
    r = r < 0 ? r : fit_mode(p, err);
    if (r < 0)
        return r;
    p->input.workspace.hidden = &p->hidden.paths;
    p->input.workspace.tracked = &p->hidden.tracked;
    p->input.workspace.elsewhere = &p->hidden.elsewhere;
    p->input.home.tools = &p->tools;
    r = run_hide(&p->facts, &p->settings, !q->dry_run && !q->passing, &p->hidden, err);
    r = r < 0 || q->dry_run ? r : note_repository(p, err);
    r = r < 0 || !q->agent ? r : prepare_agent(p, err);
    if (r >= 0 && engine_of_image(&p->settings))
        return MIN_OF(prepare_image(p, engine_of_image(&p->settings), err), 0);
    r = r < 0 ? r : home_tools_find(&p->facts, &p->settings, q->dry_run, &p->tools, err);
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
    enum rung next;

    sigprocmask(SIG_SETMASK, NULL, &req.old_mask);
    return engine_none.start(&req, &sb, &next, err);
}
