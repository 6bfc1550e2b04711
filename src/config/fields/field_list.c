/* SPDX-License-Identifier: Apache-2.0 */
/* The lists that are text: variables, which add up over the levels, and tools, which are replaced. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/fields/field.h"

enum { TOOL_LEN_MAX = 128, ENV_NAME_MAX = 256 };

void env_done(struct settings *s) {
    for (size_t i = 0; i < s->n_env; i++) {
        free(s->env[i].name);
        free(s->env[i].value);
    }
    free(s->env);
}

static struct env_spec *env_find(const struct settings *s, const char *name) {
    for (size_t i = 0; i < s->n_env; i++)
        if (str_eq(s->env[i].name, name))
            return &s->env[i];
    return NULL;
}

static int env_put(struct settings *s, const char *name, const char *value) {
    struct env_spec *e = env_find(s, name);

    if (!e) {
        e = VEC_NEW(s->env, s->n_env);
        if (!e || str_set(&e->name, name) < 0)
            return -ENOMEM;
    }
    return str_set(&e->value, value);
}

static int env_add(struct settings *s, const char *name, const char *value, struct err *err) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t n = strlen(name);

    if (n == 0 || n > ENV_NAME_MAX || strspn(name, good) != n || (*name >= '0' && *name <= '9'))
        return err_usage(err, "'%.80s' is not the name of a variable", name);
    if (s->n_env >= ENV_MAX)
        return err_usage(err, "more than %d variables", ENV_MAX);
    return env_put(s, name, value) < 0 ? err_oom(err) : 0;
}

int env_add_text(struct settings *s, const char *text, struct err *err) {
    const char *eq = strchr(text, '=');
    CLEANUP(freep) char *name = eq ? strndup(text, (size_t)(eq - text)) : strdup(text);

    return name ? env_add(s, name, eq ? eq + 1 : NULL, err) : err_oom(err);
}

int settings_add_env(struct settings *s, const char *text, struct err *err) {
    size_t n = strcspn(text, "=");
    CLEANUP(freep) char *name = strndup(text, n);

    if (name && env_find(s, name))
        return 0;
    return !name || env_put(s, name, text + n + (text[n] == '=')) < 0 ? err_oom(err) : 0;
}

static int read_variable(struct jsonwalk *w, json_t *v, void *settings, struct err *err) {
    if (!json_is_string(v) && !json_is_null(v))
        return jsonwalk_wrong_type(w, v, "a string (or null: the host's value)", err);
    return jsonwalk_ctx(w, env_add(settings, jsonwalk_key_of(w), json_string_value(v), err), err);
}

static int env_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    int r = json_is_object(v) ? jsonwalk_each(w, v, read_variable, out, err)
                              : jsonwalk_wrong_type(w, v, "an object of names and values", err);

    return r < 0 ? r : out->n_env == 0;
}

static bool env_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return s->n_env == 0; /* any variable can change what a program does (LD_PRELOAD, GIT_SSH_COMMAND, ...) */
}

static int env_merge(const struct field *f, struct settings *into, const struct settings *from) {
    for (size_t i = 0; i < from->n_env; i++)
        if (env_put(into, from->env[i].name, from->env[i].value) < 0)
            return -ENOMEM;
    return 0;
}

static void env_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    struct jsonout j = {.to = b};

    buf_addc(b, '{');
    for (size_t i = 0; i < s->n_env; i++)
        field_add_pair(&j, s->env[i].name, s->env[i].value);
    buf_addc(b, '}');
}

const struct field_type type_env = {
    .from_json = env_from_json, .within = env_within, .merge = env_merge, .add_json = env_add_json, .adds_up = true};

/* Tools that run on the host, and options of container engines: words only, what they mean is the business of others */

static int add_tool(void *list, const char *name, struct err *err) {
    struct strv *tools = list;

    if (!*name || strlen(name) > TOOL_LEN_MAX)
        return err_usage(err, "a tool's name has 1 to %d bytes", TOOL_LEN_MAX);
    if (tools->len == TOOLS_MAX)
        return err_usage(err, "more than %d tools", TOOLS_MAX);
    return strv_add(tools, name) < 0 ? err_oom(err) : 0;
}

static int tools_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    return field_read_strings(w, v, "an array of tool names", add_tool, member(f, out), err);
}

static bool tools_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return field_list_within(member_of(f, s), member_of(f, than));
}

static int tools_merge(const struct field *f, struct settings *into, const struct settings *from) {
    return field_copy_list(member_of(f, from), NULL, member(f, into));
}

static int tools_clamp(const struct field *f, struct settings *s, const struct settings *floor, struct err *err) {
    return field_copy_list(member_of(f, s), member_of(f, floor), member(f, s)) < 0 ? err_oom(err) : 0;
}

const struct field_type type_tools = {
    .from_json = tools_from_json, .within = tools_within, .merge = tools_merge, .clamp = tools_clamp, .add_json = list_add_json};
