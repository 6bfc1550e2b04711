/* SPDX-License-Identifier: Apache-2.0 */
#include "config/load/agent.h"

#include <dirent.h>
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "config/fields/doc.h"
#include "config/load/builtin.h"
#include "config/load/paths.h"

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

typedef int take_fn(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err);

static int take_text(char **slot, struct doc_reader *rd, const json_t *v, struct err *err) {
    if (!json_is_string(v) || json_string_length(v) != strlen(json_string_value(v)) || !json_string_length(v))
        return reader_wrong_type(rd, v, "a string that is not empty", err);
    free(*slot);
    *slot = strdup(json_string_value(v));
    return *slot ? 0 : err_oom(err);
}

static int take_list(struct strv *list, struct doc_reader *rd, const json_t *v, bool paths, struct err *err) {
    size_t i;
    json_t *item;

    if (!json_is_array(v) || json_array_size(v) > AGENT_LIST_MAX)
        return reader_wrong_type(rd, v, "a list of strings", err);
    json_array_foreach(v, i, item) {
        char *one = NULL;
        int r;

        reader_enter_index(rd, i);
        r = take_text(&one, rd, item, err);
        if (r == 0 && paths && !is_below(one))
            r = reader_fail(rd, err, "'%s' is not a path below the home", one);
        r = r < 0 ? r : strv_add(list, one) < 0 ? err_oom(err) : 0;
        free(one);
        if (r < 0)
            return r;
        reader_leave(rd);
    }
    return 0;
}

/* {"NAME": "value"}: as "NAME=value" if joined, else as two entries. */
static int take_map(struct strv *list, struct doc_reader *rd, json_t *v, bool joined, struct err *err) {
    const char *key;
    json_t *item;

    if (!json_is_object(v) || json_object_size(v) > AGENT_LIST_MAX)
        return reader_wrong_type(rd, v, "an object of strings", err);
    json_object_foreach(v, key, item) {
        int r;

        reader_enter(rd, key);
        if (!json_is_string(item))
            return reader_wrong_type(rd, item, "a string", err);
        if (!joined && !is_below(key))
            return reader_fail(rd, err, "'%s' is not a path below the home", key);
        r = joined ? strv_addf(list, "%s=%s", key, json_string_value(item)) : strv_add(list, key);
        if (r == 0 && !joined)
            r = strv_add(list, json_string_value(item));
        if (r < 0)
            return err_oom(err);
        reader_leave(rd);
    }
    return 0;
}

static int take_title(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_text(&a->title, rd, v, err);
}
static int take_docs(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_text(&a->docs, rd, v, err);
}
static int take_command(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    int r = take_text(&a->command, rd, v, err);

    return r == 0 && strchr(a->command, '/') ? reader_fail(rd, err, "the name of a program, not a path") : r;
}
static int take_package(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    int r = take_text(&a->package, rd, v, err);

    return r == 0 && a->package[0] == '-' ? reader_fail(rd, err, "'%s' is no package", a->package) : r;
}
static int take_args(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_list(&a->args, rd, v, false, err);
}
static int take_env(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_map(&a->env, rd, v, true, err);
}
static int take_home(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_list(&a->home, rd, v, true, err);
}
static int take_files(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_map(&a->files, rd, v, false, err);
}
static int take_hosts(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_list(&a->hosts, rd, v, false, err);
}
static int take_deny(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_list(&a->deny, rd, v, false, err);
}
static int take_secret_name(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_text(&a->secret_name, rd, v, err);
}
static int take_secret_host(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_text(&a->secret_host, rd, v, err);
}
static int take_secret_env(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    return take_list(&a->secret_env, rd, v, false, err);
}

struct key {
    const char *name;
    take_fn *take;
};

static int take_keys(struct agent *a, struct doc_reader *rd, json_t *object, const struct key *keys, size_t n, struct err *err) {
    const char *key;
    json_t *v;

    json_object_foreach(object, key, v) {
        size_t i = 0;
        int r;

        reader_enter(rd, key);
        while (i < n && !str_eq(keys[i].name, key))
            i++;
        r = i == n ? reader_unknown_key(rd, NULL, "see spec/agent.schema.json", err) : keys[i].take(a, rd, v, err);
        if (r < 0)
            return r;
        reader_leave(rd);
    }
    return 0;
}

static int take_secret(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    static const struct key keys[] = {{"name", take_secret_name}, {"host", take_secret_host}, {"env", take_secret_env}};

    return json_is_object(v) ? take_keys(a, rd, v, keys, ARRAY_LEN(keys), err) : reader_wrong_type(rd, v, "an object", err);
}

static int take_name(struct agent *a, struct doc_reader *rd, json_t *v, struct err *err) {
    char *name = NULL;
    int r = take_text(&name, rd, v, err);

    if (r == 0 && !str_eq(name, a->name))
        r = reader_fail(rd, err, "the file is for '%s'", a->name);
    free(name);
    return r;
}

static int read_doc(const struct doc *d, const char *name, struct agent *ret, struct err *err) {
    static const struct key keys[] = {
        {"name", take_name},       {"title", take_title}, {"docs", take_docs}, {"command", take_command},
        {"package", take_package}, {"args", take_args},   {"env", take_env},   {"home", take_home},
        {"files", take_files},     {"hosts", take_hosts}, {"deny", take_deny}, {"secret", take_secret},
    };
    CLEANUP(agent_done) struct agent a = {.name = strdup(name)};
    struct doc_reader rd = {.doc = d};
    int r = a.name ? take_keys(&a, &rd, d->root, keys, ARRAY_LEN(keys), err) : err_oom(err);

    if (r == 0 && !a.command)
        r = reader_fail(&rd, err, "\"command\" is missing");
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
    CLEANUP(doc_done) struct doc d = {0};
    int r = leaf ? 0 : err_oom(err);

    if (r < 0 || !agent_name_ok(name))
        return r;
    r = paths_config(environ_, home, leaf, &path, err);
    r = r < 0 || !path ? r : doc_read(path, &d, err);
    if (r == 0 && b) {
        r = doc_parse("built-in", b->text, b->len, &d, err);
        r = r < 0 ? r : 1;
    }
    if (r <= 0)
        return r;
    r = read_doc(&d, name, ret, err);
    return r < 0 ? r : 1;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_name(struct strv *names, const char *name, size_t len, struct err *err) {
    CLEANUP(freep) char *copy = strndup(name, len);

    if (!copy || (agent_name_ok(copy) && !strv_has(names, copy) && strv_add(names, copy) < 0))
        return err_oom(err);
    return 0;
}

int agent_names(char *const *environ_, const char *home, struct strv *ret, struct err *err) {
    CLEANUP(freep) char *folder = NULL;
    int r = paths_config(environ_, home, "agents", &folder, err);
    DIR *d = r == 0 && folder ? opendir(folder) : NULL;
    struct dirent *e;

    for (size_t i = 0; r == 0 && i < n_builtin_agents; i++)
        r = add_name(ret, builtin_agents[i].name, strlen(builtin_agents[i].name), err);
    while (r == 0 && d && (e = readdir(d)))
        if (str_ends(e->d_name, ".json"))
            r = add_name(ret, e->d_name, strlen(e->d_name) - strlen(".json"), err);
    if (d)
        closedir(d);
    if (r == 0)
        qsort(ret->v, ret->len, sizeof *ret->v, compare);
    return r;
}
