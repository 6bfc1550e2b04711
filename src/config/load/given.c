/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment and from flags. */
#include "config/load/given.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"

/* Reads text into one setting; shown is "--memory" or "BAWN_PROFILE", origin what --origin says. */
static int set_text(struct layer *l, enum setting id, const char *text, const char *shown, const char *origin, struct err *err) {
    int r = fields[id].type->from_text(&fields[id], text, &l->values, err);

    if (r < 0)
        return err_ctx(err, r, "%s", shown);
    layer_mark(l, id);
    l->origin_of[id] = origin;
    return 0;
}

static void set_mode(struct layer *l, enum sandbox_mode mode, const char *origin) {
    l->values.mode = mode;
    l->origin_of[SETTING_ENABLED] = origin;
    layer_mark(l, SETTING_ENABLED);
}

/* Naming an engine or a profile for this run asks for a sandbox, whatever a file says; engine "none" asks for none. */
static void imply_mode(struct layer *l) {
    bool engine = layer_has(l, SETTING_ENGINE), none = engine && str_eq(l->values.engine, "none");

    if (layer_has(l, SETTING_ENABLED) || (!engine && !layer_has(l, SETTING_PROFILE)))
        return;
    set_mode(l, none ? MODE_OFF : MODE_AUTO, l->origin_of[engine ? SETTING_ENGINE : SETTING_PROFILE]);
    l->enable_only = !none;
}

static int sandbox_variable(struct layer *l, const char *value, struct err *err) {
    static const char origin[] = "environment BAWN_SANDBOX";
    static const struct {
        const char *text;
        enum sandbox_mode mode;
    } words[] = {{"true", MODE_AUTO}, {"1", MODE_AUTO}, {"false", MODE_OFF}, {"0", MODE_OFF}, {"require", MODE_REQUIRE}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_eq(words[i].text, value)) {
            set_mode(l, words[i].mode, origin);
            l->enable_only = words[i].mode == MODE_AUTO;
            return 0;
        }
    return set_text(l, SETTING_ENGINE, value, "BAWN_SANDBOX (true, false, require or an engine)", origin, err);
}

int given_environment(char *const *environ_, struct layer *l, struct err *err) {
    const char *sandbox = paths_getenv(environ_, "BAWN_SANDBOX"), *profile = paths_getenv(environ_, "BAWN_PROFILE");
    const char *image = paths_getenv(environ_, "BAWN_SANDBOX_IMAGE");
    int r = 0;

    if (sandbox)
        r = sandbox_variable(l, sandbox, err);
    if (r == 0 && profile)
        r = set_text(l, SETTING_PROFILE, profile, "BAWN_PROFILE", "environment BAWN_PROFILE", err);
    if (r == 0 && image)
        r = set_text(l, SETTING_IMAGE, image, "BAWN_SANDBOX_IMAGE", "environment BAWN_SANDBOX_IMAGE", err);
    if (r == 0)
        imply_mode(l);
    return r;
}

#define FLAG(member, id, name) \
    { offsetof(struct settings_flags, member), SETTING_##id, name, "flag " name }

static const struct {
    size_t offset;
    enum setting id;
    const char *name, *origin;
} text_flags[] = {
    FLAG(mode, ENABLED, "--sandbox"),
    FLAG(engine, ENGINE, "--engine"),
    FLAG(profile, PROFILE, "--profile"),
    FLAG(image, IMAGE, "--image"),
    FLAG(cpus, CPUS, "--cpus"),
    FLAG(memory, MEMORY, "--memory"),
    FLAG(swap, SWAP, "--swap"),
    FLAG(pids, PIDS, "--pids"),
    FLAG(disk, DISK, "--disk"),
    FLAG(timeout, TIMEOUT, "--timeout"),
    FLAG(network, NETWORK, "--network"),
    FLAG(ssh_agent, SSH_AGENT, "--ssh-agent"),
    FLAG(ask, ASK, "--ask"),
    FLAG(ask_timeout, ASK_TIMEOUT, "--ask-timeout"),
    FLAG(idle_timeout, IDLE_TIMEOUT, "--idle"),
};

static int network_flags(const struct settings_flags *flags, struct layer *l, struct err *err) {
    const struct {
        const struct strv *given;
        struct strv *to;
        enum setting id;
        const char *origin;
    } lists[] = {
        {&flags->allow, &l->values.net.allow, SETTING_NETWORK_ALLOW, "flag --allow"},
        {&flags->deny, &l->values.net.deny, SETTING_NETWORK_DENY, "flag --deny"},
        {&flags->publish, NULL, SETTING_PUBLISH, "flag --publish"},
    };
    int r;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        for (size_t k = 0; k < lists[i].given->len; k++) {
            const char *text = lists[i].given->v[k];

            r = lists[i].to ? network_host_add_text(lists[i].to, text, err) : publish_add_text(&l->values, text, err);
            if (r < 0)
                return err_ctx(err, r, "%s", lists[i].origin + strlen("flag "));
            layer_mark(l, lists[i].id);
            l->origin_of[lists[i].id] = lists[i].origin;
        }
    return 0;
}

static int choice_flags(const struct settings_flags *flags, struct layer *l, struct err *err) {
    static int (*const add[])(struct settings * s, const char *text, struct err *err) = {secrets_add_text, ssh_keys_add_text};
    static const char *const origins[] = {"flag --secret", "flag --ssh-key"};
    const enum setting ids[] = {SETTING_SECRETS, SETTING_SSH_KEYS};
    const struct strv *const given[] = {&flags->secrets, &flags->ssh_keys};

    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        for (size_t k = 0; k < given[i]->len; k++) {
            int r = add[i](&l->values, given[i]->v[k], err);

            if (r < 0)
                return err_ctx(err, r, "%s", origins[i] + strlen("flag "));
            layer_mark(l, ids[i]);
            l->origin_of[ids[i]] = origins[i];
        }
    if (!flags->no_secrets)
        return 0;
    if (flags->secrets.len)
        return err_usage(err, "--secret and --no-secrets exclude each other");
    layer_mark(l, SETTING_SECRETS);
    l->origin_of[SETTING_SECRETS] = "flag --no-secrets";
    return 0;
}

static int list_flags(const struct settings_flags *flags, const char *home, struct layer *l, struct err *err) {
    int r;

    for (size_t i = 0; i < flags->mounts.len; i++) {
        r = mounts_add_text(&l->values, flags->mounts.v[i], home, err);
        if (r < 0)
            return err_ctx(err, r, "--mount");
        layer_mark(l, SETTING_MOUNTS);
        l->origin_of[SETTING_MOUNTS] = "flag --mount";
    }
    for (size_t i = 0; i < flags->env.len; i++) {
        r = env_add_text(&l->values, flags->env.v[i], err);
        if (r < 0)
            return err_ctx(err, r, "--env");
        layer_mark(l, SETTING_ENV);
        l->origin_of[SETTING_ENV] = "flag --env";
    }
    return 0;
}

/* A mode that writes, named for this run, wins over workspace_writable: false of a file; the floor still cuts it. */
static int workspace_flag(const char *mode, struct layer *l, struct err *err) {
    static const char origin[] = "flag --workspace";
    int r = set_text(l, SETTING_WORKSPACE_MODE, mode, "--workspace", origin, err);

    if (r < 0)
        return r;
    l->values.workspace.writable = l->values.workspace.mode != WORKSPACE_RO;
    l->origin_of[SETTING_WORKSPACE_WRITABLE] = origin;
    layer_mark(l, SETTING_WORKSPACE_WRITABLE);
    return 0;
}

int given_flags(const struct settings_flags *flags, const char *home, struct layer *l, struct err *err) {
    int r;

    l->said = true;
    for (size_t i = 0; i < ARRAY_LEN(text_flags); i++) {
        const char *text = *(const char *const *)((const char *)flags + text_flags[i].offset);

        r = text ? set_text(l, text_flags[i].id, text, text_flags[i].name, text_flags[i].origin, err) : 0;
        if (r < 0)
            return r;
    }
    r = list_flags(flags, home, l, err);
    r = r < 0 ? r : network_flags(flags, l, err);
    r = r < 0 ? r : choice_flags(flags, l, err);
    if (r == 0 && flags->workspace_mode)
        r = workspace_flag(flags->workspace_mode, l, err);
    if (r < 0)
        return r;
    if (flags->mode && flags->engine && str_eq(flags->engine, "none") && l->values.mode != MODE_OFF)
        return err_usage(err, "--engine none means no sandbox, but mode '%s' asks for one", flags->mode);
    if (flags->mode && l->values.mode == MODE_OFF)
        l->origin_of[SETTING_ENABLED] = "flag --no-sandbox";
    imply_mode(l);
    return 0;
}
