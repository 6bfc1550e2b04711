/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in of a JSON file of settings, and the rules for keys of all formats. */
#include <errno.h>
#include <jansson.h>
#include <strings.h>

#include "audit/redact.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "ops/agent/agent_config.h"

enum { KEY_MAX = 2048 };

/* -- rules ---------------------------------------------------------------------------------------------------------------- */

/* Parts of names that values of credentials have. */
static const char *const secret_words[] = {"token",  "secret",    "password",   "passwd",     "passphrase",
                                           "apikey", "api_key",   "api-key",    "cookie",     "authorization",
                                           "bearer", "accesskey", "access_key", "credential", "private"};
/* Tables of an MCP server whose every value may be one. */
static const char *const secret_tables[] = {"env", "environment", "headers", "http_headers", "oauth", "auth"};
static const char *const server_lists[] = {"mcpServers", "mcp_servers", "mcp"};
/* Strings beside a command that say nothing about it. */
static const char *const quiet_names[] = {"type", "matcher", "transport", "description", "name", "statusMessage"};

static bool is_among(const char *word, size_t len, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strlen(words[i]) == len && strncmp(words[i], word, len) == 0)
            return true;
    return false;
}

static const char *last_name(const char *key) {
    const char *step = strrchr(key, CONFIG_STEP);

    return step ? step + 1 : key;
}

/* mcpServers / NAME / env / ... */
static bool is_of_server_table(const char *key) {
    const char *name = strchr(key, CONFIG_STEP), *table = name ? strchr(name + 1, CONFIG_STEP) : NULL;
    const char steps[] = {CONFIG_STEP, 0};

    return table && is_among(key, (size_t)(name - key), server_lists, ARRAY_LEN(server_lists)) &&
           is_among(table + 1, strcspn(table + 1, steps), secret_tables, ARRAY_LEN(secret_tables));
}

static bool name_is_secret(const char *name) {
    size_t n = strlen(name);

    if (str_ends(name, "Helper") || str_ends(name, "env_var") || str_ends(name, "env_key"))
        return false; /* a command, and names of variables */
    for (size_t i = 0; i < ARRAY_LEN(secret_words); i++)
        if (strcasestr(name, secret_words[i]))
            return true;
    return n >= 3 && strcasecmp(name + n - 3, "key") == 0;
}

static bool text_is_secret(const char *text) {
    char *argv[] = {"x", (char *)(uintptr_t)text, NULL};
    CLEANUP(freep) char *shown = redact_argument(argv, 1);

    return !shown || strstr(shown, REDACTED);
}

bool config_is_secret(const char *key, const char *text) {
    if (is_of_server_table(key))
        return true;
    return text && *text && (name_is_secret(last_name(key)) || text_is_secret(text));
}

/* The patterns of a preset are names with dots; "*" is any. What is below counts, too. */
static bool pattern_holds(const char *pattern, const char *key) {
    const char steps[] = {CONFIG_STEP, 0};

    while (*pattern) {
        size_t n = strcspn(pattern, "."), k = strcspn(key, steps);

        if (k == 0 || !((n == 1 && *pattern == '*') || (n == k && strncmp(pattern, key, n) == 0)))
            return false;
        pattern += n + (pattern[n] == '.');
        key += k + (key[k] == CONFIG_STEP);
    }
    return true;
}

bool config_runs(const struct agent *a, const char *key) {
    const char *name = last_name(key);

    for (size_t i = 0; i < a->config_runs.len; i++)
        if (pattern_holds(a->config_runs.v[i], key))
            return !is_among(name, strlen(name), quiet_names, ARRAY_LEN(quiet_names));
    return false;
}

int config_note(struct strv *to, const char *file, const char *key, const char *value, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * CONFIG_FILE_MAX);
    CLEANUP(freep) char *dotted = strdup(key);

    for (char *p = dotted; p && *p; p++)
        *p = *p == CONFIG_STEP ? '.' : *p;
    buf_add_printable(&b, file);
    buf_adds(&b, ": ");
    buf_add_printable(&b, dotted ? dotted : "");
    if (value) {
        buf_adds(&b, " = ");
        buf_add_printable(&b, value);
    }
    return dotted && buf_ok(&b) && strv_add(to, buf_str(&b)) == 0 ? 0 : err_oom(err);
}

/* -- JSON ----------------------------------------------------------------------------------------------------------------- */

struct json_filter {
    const struct agent *agent;
    const char *file;
    struct agent_config *to;
    size_t depth;
};

static int filter_value(struct json_filter *f, json_t *v, const char *key, bool *ret_drop, struct err *err);

static int filter_members(struct json_filter *f, json_t *v, const char *key, struct err *err) {
    const char *name;
    json_t *item;
    void *next;

    json_object_foreach_safe(v, next, name, item) {
        char below[KEY_MAX];
        bool drop = false;
        int r;

        if ((size_t)snprintf(below, sizeof below, "%s%s%s", key, *key ? (const char[]){CONFIG_STEP, 0} : "", name) >=
            sizeof below)
            return err_set(err, -EINVAL, "a key is too long");
        r = filter_value(f, item, below, &drop, err);
        if (r == 0 && drop)
            r = config_note(&f->to->left, f->file, below, NULL, err);
        if (r < 0)
            return r;
        if (drop)
            json_object_del(v, name);
    }
    return 0;
}

/* The elements have no names of their own. An array of words is a command line: all of it, or nothing. */
static int filter_elements(struct json_filter *f, json_t *v, const char *key, bool *ret_drop, struct err *err) {
    CLEANUP(buf_done) struct buf words = BUF_INIT(CONFIG_FILE_MAX);
    int r = 0;

    for (size_t i = 0; r == 0 && !*ret_drop && i < json_array_size(v); i++) {
        json_t *item = json_array_get(v, i);

        if (json_is_string(item))
            buf_addf(&words, "%s%s", words.len ? " " : "", json_string_value(item));
        r = filter_value(f, item, key, ret_drop, err);
    }
    if (r == 0 && !*ret_drop && words.len && config_runs(f->agent, key))
        r = config_note(&f->to->runs, f->file, key, buf_str(&words), err);
    return r;
}

static int filter_value(struct json_filter *f, json_t *v, const char *key, bool *ret_drop, struct err *err) {
    int r = 0;

    if (f->depth == CONFIG_DEPTH_MAX * 2)
        return err_set(err, -EINVAL, "it is nested too deep");
    f->depth++;
    if (config_is_secret(key, json_string_value(v)))
        *ret_drop = true;
    else if (json_is_object(v))
        r = filter_members(f, v, key, err);
    else if (json_is_array(v))
        r = filter_elements(f, v, key, ret_drop, err);
    f->depth--;
    return r;
}

/* Strings that run something, but not those in arrays, which filter_elements() has listed as one. */
static int list_runs(struct json_filter *f, const json_t *v, const char *key, struct err *err) {
    const char *name;
    json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach((json_t *)(uintptr_t)v, i, item) if (r == 0 && json_is_object(item)) r = list_runs(f, item, key, err);
    json_object_foreach((json_t *)(uintptr_t)v, name, item) {
        char below[KEY_MAX];

        snprintf(below, sizeof below, "%s%s%s", key, *key ? (const char[]){CONFIG_STEP, 0} : "", name);
        if (r == 0 && json_is_string(item) && config_runs(f->agent, below))
            r = config_note(&f->to->runs, f->file, below, json_string_value(item), err);
        r = r < 0 ? r : list_runs(f, item, below, err);
    }
    return r;
}

static void keep_only(json_t *root, const char *only) {
    const char *name;
    json_t *item;
    void *next;

    json_object_foreach_safe(root, next, name, item) if (!str_eq(name, only)) json_object_del(root, name);
}

int config_filter_json(const struct agent *a, struct config_file *f, const char *only, const char *preset, struct agent_config *c,
                       struct err *err) {
    struct json_filter x = {.agent = a, .file = f->path, .to = c};
    CLEANUP(json_decrefp) json_t *root = NULL, *own = NULL;
    CLEANUP(freep) char *text = NULL;
    int r = json_parse_object(buf_str(&f->data), f->data.len, CONFIG_FILE_MAX, &root, err);

    if (r < 0)
        return err_set(err, -EINVAL, "it is no JSON");
    if (only)
        keep_only(root, only);
    r = filter_members(&x, root, "", err);
    r = r < 0 ? r : list_runs(&x, root, "", err);
    if (r == 0 && preset && json_parse_object(preset, strlen(preset), CONFIG_FILE_MAX, &own, err) == 0)
        json_object_update_recursive(root, own);
    text = r < 0 ? NULL : json_dumps(root, JSON_INDENT(2));
    if (r < 0 || !text)
        return r < 0 ? r : err_oom(err);
    buf_clear(&f->data);
    buf_addf(&f->data, "%s\n", text);
    return buf_ok(&f->data) ? 0 : err_oom(err);
}
