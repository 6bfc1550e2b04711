/* SPDX-License-Identifier: Apache-2.0 */
/* Settings from the environment and from flags. */
#include "config/load/given.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"

static void mark(struct layer *l, enum setting id, const char *origin) {
    layer_mark(l, id);
    l->origin_of[id] = origin;
}

/* Reads text into one setting; shown is "--memory" or "BAWN_PROFILE", origin what --origin says. */
static int set_text(struct layer *l, enum setting id, const char *text, const char *shown, const char *origin, struct err *err) {
    int r = fields[id].type->from_text(&fields[id], text, &l->values, err);

    if (r < 0)
        return err_ctx(err, r, "%s", shown);
    mark(l, id, origin);
    return 0;
}

static void set_mode(struct layer *l, enum sandbox_mode mode, const char *origin) {
    l->values.mode = mode;
    mark(l, SETTING_ENABLED, origin);
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
    FLAG(tmp, TMP, "--tmp-size"),
    FLAG(timeout, TIMEOUT, "--timeout"),
    FLAG(network, NETWORK, "--network"),
    FLAG(ssh_agent, SSH_AGENT, "--ssh-agent"),
    FLAG(ask, ASK, "--ask"),
    FLAG(ask_timeout, ASK_TIMEOUT, "--ask-timeout"),
    FLAG(idle_timeout, IDLE_TIMEOUT, "--idle"),
    FLAG(system_view, SYSTEM, "--system"),
    FLAG(system_ids, SYSTEM_IDS, "--system-ids"),
};

static int add_allow(struct settings *s, const char *text, struct err *err) {
    return network_host_add_text(&s->net.allow, text, err);
}

static int add_deny(struct settings *s, const char *text, struct err *err) {
    return network_host_add_text(&s->net.deny, text, err);
}

#define LIST_FLAG(member, id, name, add) \
    { offsetof(struct settings_flags, member), SETTING_##id, name, "flag " name, add }

static const struct {
    size_t offset;
    enum setting id;
    const char *name, *origin;
    int (*add)(struct settings *s, const char *text, struct err *err); /* NULL: mounts, which may be below the home */
} list_flags[] = {
    LIST_FLAG(mounts, MOUNTS, "--mount", NULL),
    LIST_FLAG(env, ENV, "--env", env_add_text),
    LIST_FLAG(allow, NETWORK_ALLOW, "--allow", add_allow),
    LIST_FLAG(deny, NETWORK_DENY, "--deny", add_deny),
    LIST_FLAG(publish, PUBLISH, "--publish", publish_add_text),
    LIST_FLAG(secrets, SECRETS, "--secret", secrets_add_text),
    LIST_FLAG(ssh_keys, SSH_KEYS, "--ssh-key", ssh_keys_add_text),
};

static int read_lists(const struct settings_flags *flags, const char *home, struct layer *l, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(list_flags); i++) {
        const struct strv *given = (const struct strv *)((const char *)flags + list_flags[i].offset);

        for (size_t k = 0; k < given->len; k++) {
            int r = list_flags[i].add ? list_flags[i].add(&l->values, given->v[k], err)
                                      : mounts_add_text(&l->values, given->v[k], home, err);

            if (r < 0)
                return err_ctx(err, r, "%s", list_flags[i].name);
            mark(l, list_flags[i].id, list_flags[i].origin);
        }
    }
    if (flags->no_secrets && flags->secrets.len)
        return err_usage(err, "--secret and --no-secrets exclude each other");
    if (flags->no_secrets)
        mark(l, SETTING_SECRETS, "flag --no-secrets");
    if (flags->nested) {
        l->values.nested = true;
        mark(l, SETTING_NESTED, "flag --nested");
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
    mark(l, SETTING_WORKSPACE_WRITABLE, origin);
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
    r = read_lists(flags, home, l, err);
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
