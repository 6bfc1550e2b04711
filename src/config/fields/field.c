/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings, and what its types share. */
#include "config/fields/field.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"

#define EVERYWHERE (IN_SANDBOX | IN_PROFILE | IN_FLOOR)

/* id, key, member of struct settings, type, where it may stand */
#define SETTINGS(X)                                                                                                   \
    X(ENABLED, "mode", mode, type_mode, IN_SANDBOX | IN_FLOOR)                                                        \
    X(ENGINE, "engine", engine, type_engine, IN_SANDBOX | IN_PROFILE)                                                 \
    X(PROFILE, "profile", profile, type_profile, IN_SANDBOX)                                                          \
    X(IMAGE, "image", image, type_image, IN_SANDBOX | IN_PROFILE)                                                     \
    X(CPUS, "resources.cpus", limits.cpus_milli, type_cpus, EVERYWHERE)                                               \
    X(MEMORY, "resources.memory", limits.memory, type_size, EVERYWHERE)                                               \
    X(SWAP, "resources.swap", limits.swap, type_swap, EVERYWHERE)                                                     \
    X(PIDS, "resources.pids", limits.pids, type_pids, EVERYWHERE)                                                     \
    X(DISK, "resources.disk", limits.disk, type_size, EVERYWHERE)                                                     \
    X(TMP, "resources.tmp", limits.tmp, type_tmp, EVERYWHERE)                                                         \
    X(TIMEOUT, "resources.timeout", limits.timeout_ms, type_duration, EVERYWHERE)                                     \
    X(NETWORK, "network", net.mode, type_network, EVERYWHERE)                                                         \
    X(NETWORK_ALLOW, "networkAllow", net.allow, type_network_allow, IN_SANDBOX | IN_PROFILE)                          \
    X(NETWORK_DENY, "networkDeny", net.deny, type_network_deny, IN_SANDBOX | IN_PROFILE)                              \
    X(PUBLISH, "publish", net.publish, type_publish, IN_SANDBOX | IN_PROFILE)                                         \
    X(ASK, "ask", question.mode, type_ask, EVERYWHERE)                                                                \
    X(ASK_HOOK, "askHook", question.hook, type_ask_hook, IN_SANDBOX | IN_FLOOR)                                       \
    X(ASK_TIMEOUT, "askTimeout", question.timeout_ms, type_ask_timeout, EVERYWHERE)                                   \
    X(SSH_AGENT, "sshAgent", ssh.agent, type_ssh_agent, EVERYWHERE)                                                   \
    X(SSH_KEYS, "sshKeys", ssh.keys, type_ssh_keys, EVERYWHERE)                                                       \
    X(SECRETS, "secrets", secrets, type_secrets, EVERYWHERE)                                                          \
    X(MOUNTS, "mounts.extra", mounts, type_mounts, IN_SANDBOX | IN_FLOOR)                                             \
    X(ENV, "env", env, type_env, IN_SANDBOX | IN_PROFILE)                                                             \
    X(WORKSPACE_WRITABLE, "mounts.workspace_writable", workspace.writable, type_bool, IN_SANDBOX | IN_FLOOR)          \
    X(WORKSPACE_MODE, "workspace.mode", workspace.mode, type_workspace_mode, EVERYWHERE)                              \
    X(WORKSPACE_PROTECT, "workspace.protect", workspace.protect, type_protect, IN_SANDBOX | IN_PROFILE)               \
    X(WORKSPACE_SUBSTITUTE, "workspace.substitute", workspace.substitutes, type_substitutes, IN_SANDBOX | IN_PROFILE) \
    X(WORKSPACE_VOLUMES, "workspace.volumes", workspace.volumes, type_volumes, IN_SANDBOX | IN_PROFILE)               \
    X(WORKSPACE_ROLLBACK, "workspace.rollback", workspace.rollback, type_rollback, IN_SANDBOX | IN_PROFILE)           \
    X(WORKSPACE_SKIP_IGNORED, "workspace.skip_ignored", workspace.skip_ignored, type_bool, IN_SANDBOX | IN_PROFILE)   \
    X(PERSIST_CACHES, "mounts.persist_caches", persist_caches, type_bool, IN_SANDBOX | IN_FLOOR)                      \
    X(HOME_TOOLS, "mounts.home_tools", home_tools, type_bool, IN_SANDBOX | IN_FLOOR)                                  \
    X(SYSTEM, "system", system_view, type_system, EVERYWHERE)                                                         \
    X(SYSTEM_IDS, "system_ids", system_ids, type_system_ids, EVERYWHERE)                                              \
    X(NESTED, "nested", nested, type_nested, EVERYWHERE)                                                              \
    X(BYPASS_TOOLS, "bypass_tools", bypass_tools, type_tools, IN_SANDBOX | IN_FLOOR)                                  \
    X(ENGINE_FLAGS, "engine_flags", engine_flags, type_tools, IN_SANDBOX | IN_FLOOR)                                  \
    X(KEEP_ALIVE, "keep_alive", keep_alive, type_bool, IN_SANDBOX | IN_FLOOR)                                         \
    X(IDLE_TIMEOUT, "idle_timeout", idle_timeout_ms, type_duration, EVERYWHERE)                                       \
    X(START_TIMEOUT, "start_timeout", start_timeout_ms, type_duration, IN_SANDBOX | IN_PROFILE)

#define AS_NAME(id, key, member, type, where) [SETTING_##id] = key,
#define AS_FIELD(id, key, member, type, where) \
    [SETTING_##id] = {SETTING_##id, key, offsetof(struct settings, member), &type, where},

const char *const setting_names[SETTING_COUNT] = {SETTINGS(AS_NAME)};

const struct field fields[] = {
    SETTINGS(AS_FIELD){SETTING_ENABLED, "enabled", offsetof(struct settings, mode), &type_enabled, IN_SANDBOX | IN_FLOOR},
    {SETTING_ENGINE, "runtime", offsetof(struct settings, engine), &type_engine, IN_SANDBOX},
    {SETTING_ENGINE, "engines", offsetof(struct settings, allowed_engines), &type_engines, IN_FLOOR},
    {SETTING_MOUNTS, "mounts", offsetof(struct settings, mounts), &type_mounts, IN_PROFILE},
};
const size_t n_fields = ARRAY_LEN(fields);

const struct field *field_find(const char *key, unsigned where) {
    for (size_t i = 0; i < n_fields; i++)
        if (fields[i].where & where && str_eq(fields[i].key, key))
            return &fields[i];
    return NULL;
}

bool field_is_group(const char *key, unsigned where) {
    size_t n = strlen(key);

    for (size_t i = 0; i < n_fields; i++)
        if (fields[i].where & where && strncmp(fields[i].key, key, n) == 0 && fields[i].key[n] == '.')
            return true;
    return false;
}

void settings_add_value(const struct settings *s, enum setting id, struct buf *b) {
    fields[id].type->add_json(&fields[id], s, b);
}

int field_read_strings(struct jsonwalk *w, json_t *v, const char *wanted, field_add *add, void *arg, struct err *err) {
    if (!json_is_array(v))
        return jsonwalk_wrong_type(w, v, wanted, err);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        int r;

        jsonwalk_enter_index(w, i);
        if (!json_is_string(item))
            return jsonwalk_wrong_type(w, item, "a string", err);
        r = add(arg, json_string_value(item), err);
        if (r < 0)
            return jsonwalk_ctx(w, r, err);
        jsonwalk_leave(w);
    }
    return 0;
}

int field_unknown_word(const char *word, const char *kind, const char *const *names, size_t n, struct err *err) {
    CLEANUP(buf_done) struct buf known = BUF_INIT(256);
    const char *near = str_nearest(word, names, n);

    if (near)
        return err_usage(err, "'%.60s' is not %s (did you mean '%s'?)", word, kind, near);
    for (size_t i = 0; i < n; i++)
        buf_addf(&known, "%s%s", i ? ", " : "", names[i]);
    return err_usage(err, "'%.60s' is not %s (one of: %s)", word, kind, buf_str(&known));
}

int list_merge(const struct field *f, struct settings *into, const struct settings *from) {
    const struct strv *more = member_of(f, from);
    struct strv *list = member(f, into);

    for (size_t i = 0; i < more->len; i++)
        if (!strv_has(list, more->v[i]) && strv_add(list, more->v[i]) < 0)
            return -ENOMEM;
    return 0;
}

bool field_list_within(const struct strv *list, const struct strv *than) {
    for (size_t i = 0; i < list->len; i++)
        if (!strv_has(than, list->v[i]))
            return false;
    return true;
}

int field_copy_list(const struct strv *from, const struct strv *only, struct strv *to) {
    CLEANUP(strv_done) struct strv copy = {0};

    for (size_t i = 0; i < from->len; i++)
        if ((!only || strv_has(only, from->v[i])) && strv_add(&copy, from->v[i]) < 0)
            return -ENOMEM;
    strv_done(to);
    *to = TAKE(copy, (struct strv){0});
    return 0;
}

void field_add_pair(struct jsonout *j, const char *key, const char *value) {
    jsonout_key(j, NULL);
    buf_add_json(j->to, key);
    buf_adds(j->to, ": ");
    jsonout_text(j, NULL, value);
}

void field_add_strings(struct buf *b, const struct strv *list) {
    struct jsonout j = {.to = b};

    buf_addc(b, '['); /* not jsonout_open(): a value may come behind any text */
    for (size_t i = 0; i < list->len; i++)
        jsonout_text(&j, NULL, list->v[i]);
    buf_addc(b, ']');
}

void list_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    field_add_strings(b, member_of(f, s));
}

enum { VALUE_MAX = 2 * DOC_SIZE_MAX };

void settings_add_text(const struct settings *s, enum setting id, struct buf *b) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(VALUE_MAX);
    const char *text;

    settings_add_value(s, id, &json);
    text = buf_str(&json);
    if (str_eq(text, "null") && fields[id].type->none)
        buf_adds(b, fields[id].type->none);
    else if (text[0] == '"' && json.len >= 2)
        buf_add(b, text + 1, json.len - 2);
    else
        buf_adds(b, text);
}
