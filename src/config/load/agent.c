/* SPDX-License-Identifier: Apache-2.0 */
/* Reads presets of agents. */
#include "config/load/agent.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/fields/doc.h"
#include "config/load/builtin.h"
#include "config/load/paths.h"
#include "os/dir.h"

bool agent_name_ok(const char *name) {
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");

    return len > 0 && len <= AGENT_NAME_MAX && name[len] == 0 && name[0] != '-';
}

void agent_done(struct agent *a) {
    char *const texts[] = {a->name, a->title, a->docs, a->command, a->package, a->secret_name, a->secret_host};
    struct strv *const lists[] = {&a->args, &a->env, &a->home, &a->files, &a->hosts, &a->deny, &a->secret_env};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        strv_done(lists[i]);
    *a = (struct agent){0};
}

/* A path below the home: no way out of it. */
static bool is_below(const char *path) {
    if (path[0] == 0 || path[0] == '/' || str_ends(path, "/"))
        return false;
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
        size_t len = strcspn(p, "/");

        if (len == 0 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
            return false;
    }
    return true;
}

static int read_text(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    if (!json_is_string(v) || !json_string_length(v))
        return jsonwalk_wrong_type(w, v, "a string that is not empty", err);
    return str_set(slot, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

static int add_word(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    if (!json_is_string(v) || !json_string_length(v))
        return jsonwalk_wrong_type(w, v, "a string that is not empty", err);
    return strv_add(list, json_string_value(v)) < 0 ? err_oom(err) : 0;
}

static int check_path(struct jsonwalk *w, const char *path, struct err *err) {
    return is_below(path) ? 0 : jsonwalk_fail(w, err, "'%s' is not a path below the home", path);
}

static int add_path(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    int r = json_is_string(v) && json_string_length(v) ? check_path(w, json_string_value(v), err) : 0;

    return r < 0 ? r : add_word(w, v, list, err);
}

static int read_list(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    return jsonwalk_elements(w, v, AGENT_LIST_MAX, add_word, list, err);
}

static int read_paths(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    return jsonwalk_elements(w, v, AGENT_LIST_MAX, add_path, list, err);
}

/* {"NAME": "value"}: as "NAME=value" if joined, else a path and its content as two entries. */
static int read_map(struct jsonwalk *w, json_t *v, struct strv *list, bool joined, struct err *err) {
    const char *key;
    json_t *item;

    if (!json_is_object(v) || json_object_size(v) > AGENT_LIST_MAX)
        return jsonwalk_wrong_type(w, v, "an object of strings", err);
    json_object_foreach(v, key, item) {
        int r;

        jsonwalk_enter(w, key);
        if (!json_is_string(item))
            return jsonwalk_wrong_type(w, item, "a string", err);
        r = joined ? 0 : check_path(w, key, err);
        if (r < 0)
            return r;
        r = joined ? strv_addf(list, "%s=%s", key, json_string_value(item)) : strv_add(list, key);
        if (r < 0 || (!joined && strv_add(list, json_string_value(item)) < 0))
            return err_oom(err);
        jsonwalk_leave(w);
    }
    return 0;
}

static int read_env(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    return read_map(w, v, list, true, err);
}

static int read_files(struct jsonwalk *w, json_t *v, void *list, struct err *err) {
    return read_map(w, v, list, false, err);
}

static int read_command(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    int r = read_text(w, v, slot, err);

    return r == 0 && strchr(json_string_value(v), '/') ? jsonwalk_fail(w, err, "the name of a program, not a path") : r;
}

static int read_package(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    int r = read_text(w, v, slot, err);

    return r == 0 && json_string_value(v)[0] == '-' ? jsonwalk_fail(w, err, "'%s' is no package", json_string_value(v)) : r;
}

static int read_name(struct jsonwalk *w, json_t *v, void *arg, struct err *err) {
    const struct agent *a = arg;

    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a string", err);
    return str_eq(json_string_value(v), a->name) ? 0 : jsonwalk_fail(w, err, "the file is for '%s'", a->name);
}

#define AT(member) offsetof(struct agent, member)

static int read_secret(struct jsonwalk *w, json_t *v, void *agent, struct err *err) {
    static const struct jsonwalk_key keys[] = {
        {"name", read_text, AT(secret_name)}, {"host", read_text, AT(secret_host)}, {"env", read_list, AT(secret_env)}};

    return jsonwalk_members(w, v, keys, ARRAY_LEN(keys), agent, err);
}

static int read_doc(const struct jsonfile *d, const char *name, struct agent *ret, struct err *err) {
    static const struct jsonwalk_key keys[] = {
        {"name", read_name, 0},
        {"title", read_text, AT(title)},
        {"docs", read_text, AT(docs)},
        {"command", read_command, AT(command)},
        {"package", read_package, AT(package)},
        {"args", read_list, AT(args)},
        {"env", read_env, AT(env)},
        {"home", read_paths, AT(home)},
        {"files", read_files, AT(files)},
        {"hosts", read_list, AT(hosts)},
        {"deny", read_list, AT(deny)},
        {"secret", read_secret, 0},
    };
    CLEANUP(agent_done) struct agent a = {.name = strdup(name)};
    struct jsonwalk w = {.file = d};
    int r = a.name ? jsonwalk_members(&w, d->root, keys, ARRAY_LEN(keys), &a, err) : err_oom(err);

    if (r == 0 && !a.command)
        r = jsonwalk_fail(&w, err, "\"command\" is missing");
    if (r == 0)
        *ret = TAKE(a, (struct agent){0});
    return r;
}

static const struct builtin_file *find_builtin(const char *name) {
    for (size_t i = 0; i < n_builtin_agents; i++)
        if (str_eq(builtin_agents[i].name, name))
            return &builtin_agents[i];
    return NULL;
}

int agent_read(const char *name, char *const *environ_, const char *home, struct agent *ret, struct err *err) {
    const struct builtin_file *b = find_builtin(name);
    CLEANUP(freep) char *leaf = str_dupf("agents/%s.json", name), *path = NULL;
    CLEANUP(jsonfile_done) struct jsonfile d = {0};
    int r = leaf ? 0 : err_oom(err);

    if (r < 0 || !agent_name_ok(name))
        return r;
    r = paths_config(environ_, home, leaf, &path, err);
    r = r < 0 || !path ? r : doc_read(path, &d, err);
    if (r == 0 && b) {
        r = jsonfile_parse("built-in", b->text, b->len, DOC_SIZE_MAX, &d, err);
        r = r < 0 ? r : 1;
    }
    if (r <= 0)
        return r;
    r = read_doc(&d, name, ret, err);
    return r < 0 ? r : 1;
}

static int add_name(struct strv *names, const char *name, size_t len, struct err *err) {
    CLEANUP(freep) char *copy = strndup(name, len);

    if (!copy || (agent_name_ok(copy) && !strv_has(names, copy) && strv_add(names, copy) < 0))
        return err_oom(err);
    return 0;
}

int agent_names(char *const *environ_, const char *home, struct strv *ret, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int r = paths_config(environ_, home, "agents", &folder, err);

    for (size_t i = 0; r == 0 && i < n_builtin_agents; i++)
        r = add_name(ret, builtin_agents[i].name, strlen(builtin_agents[i].name), err);
    if (r == 0 && folder)
        dir_open_linked(folder, &d);
    while (r == 0 && (e = dir_next(&d)))
        if (str_ends(e->d_name, ".json"))
            r = add_name(ret, e->d_name, strlen(e->d_name) - strlen(".json"), err);
    if (r == 0)
        qsort(ret->v, ret->len, sizeof *ret->v, str_compare);
    return r;
}
