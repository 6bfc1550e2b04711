/* SPDX-License-Identifier: Apache-2.0 */
/* The lists that are text: variables, which add up over the levels, and tools, which are replaced. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "config/fields/field.h"

enum { TOOL_LEN_MAX = 128, ENV_NAME_MAX = 256 };

static void env_entry_done(struct env_spec *e) {
    free(e->name);
    free(e->value);
    *e = (struct env_spec){0};
}

void env_done(struct settings *s) {
    for (size_t i = 0; i < s->n_env; i++)
        env_entry_done(&s->env[i]);
    free(s->env);
    s->env = NULL;
    s->n_env = 0;
}

static int env_put(struct settings *s, const char *name, const char *value) {
    CLEANUP(env_entry_done) struct env_spec e = {strdup(name), value ? strdup(value) : NULL};
    struct env_spec *grown;

    if (!e.name || (value && !e.value))
        return -ENOMEM;
    for (size_t i = 0; i < s->n_env; i++)
        if (str_eq(s->env[i].name, name)) {
            env_entry_done(&s->env[i]);
            s->env[i] = TAKE(e, (struct env_spec){0});
            return 0;
        }
    grown = reallocarray(s->env, s->n_env + 1, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    s->env = grown;
    s->env[s->n_env++] = TAKE(e, (struct env_spec){0});
    return 0;
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

static int env_from_json(const struct field *f, struct doc_reader *rd, json_t *v, struct settings *out, struct err *err) {
    const char *key;
    json_t *item;

    if (!json_is_object(v))
        return reader_wrong_type(rd, v, "an object of names and values", err);
    json_object_foreach(v, key, item) {
        int r;

        reader_enter(rd, key);
        if (!json_is_string(item) && !json_is_null(item))
            return reader_wrong_type(rd, item, "a string (or null: the host's value)", err);
        r = env_add(out, key, json_string_value(item), err);
        if (r < 0)
            return reader_ctx(rd, r, err);
        reader_leave(rd);
    }
    return out->n_env == 0;
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
    buf_addc(b, '{');
    for (size_t i = 0; i < s->n_env; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, s->env[i].name);
        buf_adds(b, ": ");
        if (s->env[i].value)
            buf_add_json(b, s->env[i].value);
        else
            buf_adds(b, "null");
    }
    buf_addc(b, '}');
}

const struct field_type type_env = {
    .from_json = env_from_json, .within = env_within, .merge = env_merge, .add_json = env_add_json, .adds_up = true};

/* Tools that run on the host: names only, what they mean is the agent's business */

static int tools_from_json(const struct field *f, struct doc_reader *rd, json_t *v, struct settings *out, struct err *err) {
    if (!json_is_array(v))
        return reader_wrong_type(rd, v, "an array of tool names", err);
    if (json_array_size(v) > TOOLS_MAX)
        return reader_fail(rd, err, "more than %d tools", TOOLS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++) {
        json_t *item = json_array_get(v, i);

        reader_enter_index(rd, i);
        if (!json_is_string(item))
            return reader_wrong_type(rd, item, "a string", err);
        if (json_string_length(item) == 0 || json_string_length(item) > TOOL_LEN_MAX)
            return reader_fail(rd, err, "a tool's name has 1 to %d bytes", TOOL_LEN_MAX);
        if (strv_add(&out->bypass_tools, json_string_value(item)) < 0)
            return err_oom(err);
        reader_leave(rd);
    }
    return 0;
}

static bool tools_within(const struct field *f, const struct settings *s, const struct settings *than) {
    for (size_t i = 0; i < s->bypass_tools.len; i++)
        if (!strv_has(&than->bypass_tools, s->bypass_tools.v[i]))
            return false;
    return true;
}

static int tools_merge(const struct field *f, struct settings *into, const struct settings *from) {
    CLEANUP(strv_done) struct strv copy = {0};

    for (size_t i = 0; i < from->bypass_tools.len; i++)
        if (strv_add(&copy, from->bypass_tools.v[i]) < 0)
            return -ENOMEM;
    strv_done(&into->bypass_tools);
    into->bypass_tools = TAKE(copy, (struct strv){0});
    return 0;
}

static int tools_clamp(const struct field *f, struct settings *s, const struct settings *floor, struct err *err) {
    CLEANUP(strv_done) struct strv kept = {0};

    for (size_t i = 0; i < s->bypass_tools.len; i++)
        if (strv_has(&floor->bypass_tools, s->bypass_tools.v[i]) && strv_add(&kept, s->bypass_tools.v[i]) < 0)
            return err_oom(err);
    strv_done(&s->bypass_tools);
    s->bypass_tools = TAKE(kept, (struct strv){0});
    return 0;
}

static void tools_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    buf_addc(b, '[');
    for (size_t i = 0; i < s->bypass_tools.len; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, s->bypass_tools.v[i]);
    }
    buf_addc(b, ']');
}

const struct field_type type_tools = {
    .from_json = tools_from_json, .within = tools_within, .merge = tools_merge, .clamp = tools_clamp, .add_json = tools_add_json};
