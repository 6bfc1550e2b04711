/* SPDX-License-Identifier: Apache-2.0 */
/* Reads presets of agents. */
#include "config/load/agent.h"

#include <errno.h>

#include "base/err.h"
#include "base/pathtext.h"
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
    char *const texts[] = {a->name,        a->title,        a->docs,       a->command,     a->package,
                           a->secret_name, a->secret_host,  a->answer_env, a->answer_file, a->answer_yes,
                           a->answer_no,   a->instructions, a->skills,     a->mcp_file};
    struct strv *const lists[] = {&a->args,        &a->env,        &a->home,         &a->files,        &a->hosts,
                                  &a->deny,        &a->secret_env, &a->config_files, &a->config_parts, &a->config_as,
                                  &a->config_runs, &a->url_env,    &a->url_args};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        strv_done(lists[i]);
    *a = (struct agent){0};
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
    return path_is_below(path, strlen(path)) ? 0 : jsonwalk_fail(w, err, "'%s' is not a path below the home", path);
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

/* What an agent should know of the place that it works in. Short: it is in each of its conversations. */
static const char instructions[] =
    "# You work inside Bawn, a sandbox around this project\n"
    "\n"
    "- The project is yours to change. Nothing else of the user's machine is here: no other files, processes or credentials. Keys in\n"
    "  variables are placeholders that work only in requests to their own host.\n"
    "- The network lets through what the user's rules allow. All else is refused with a line that begins with \"Bawn denied\". Some\n"
    "  programs show only 403 or a reset; pip says that it finds no package. Trying again does not help, and it is no fault of the\n"
    "  network.\n"
    "- `curl http://bawn.internal/why` lists what was refused, and why.\n"
    "- If you need what is refused, ask the user, with host and port. They can run `bawn policy allow HOST:PORT` outside the sandbox,\n"
    "  which holds at once. Do not look for a way around it.\n"
    "- Changes that would run programs on the user's machine (git hooks, editor tasks) are refused, or wait for the user's review.\n";

static int read_instructions(struct jsonwalk *w, json_t *v, void *agent, struct err *err) {
    struct agent *a = agent;
    int r;

    if (!json_is_string(v))
        return jsonwalk_wrong_type(w, v, "a path", err);
    r = check_path(w, json_string_value(v), err);
    if (r < 0)
        return r;
    return str_set(&a->instructions, json_string_value(v)) < 0 || strv_add(&a->files, json_string_value(v)) < 0 ||
                   strv_add(&a->files, instructions) < 0
               ? err_oom(err)
               : 0;
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

static int read_config(struct jsonwalk *w, json_t *v, void *agent, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"files", read_paths, AT(config_files)},
                                               {"parts", read_files, AT(config_parts)},
                                               {"as", read_files, AT(config_as)},
                                               {"runs", read_list, AT(config_runs)}};

    return jsonwalk_members(w, v, keys, ARRAY_LEN(keys), agent, err);
}

static int read_url(struct jsonwalk *w, json_t *v, void *agent, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"env", read_list, AT(url_env)}, {"args", read_list, AT(url_args)}};

    return jsonwalk_members(w, v, keys, ARRAY_LEN(keys), agent, err);
}

static int read_path(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    int r = read_text(w, v, slot, err);

    return r < 0 ? r : check_path(w, json_string_value(v), err);
}

static int read_answer(struct jsonwalk *w, json_t *v, void *agent, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"env", read_text, AT(answer_env)},
                                               {"file", read_path, AT(answer_file)},
                                               {"yes", read_text, AT(answer_yes)},
                                               {"no", read_text, AT(answer_no)}};
    const struct agent *a = agent;
    int r = jsonwalk_members(w, v, keys, ARRAY_LEN(keys), agent, err);

    if (r == 0 && (!a->answer_env || !a->answer_file || !a->answer_yes || !a->answer_no))
        return jsonwalk_fail(w, err, "needs \"env\", \"file\", \"yes\" and \"no\"");
    return r;
}

static int read_form(struct jsonwalk *w, json_t *v, void *slot, struct err *err) {
    static const char *const forms[] = {"claude", "codex", "gemini", "opencode"};
    int i = json_is_string(v) ? str_index(json_string_value(v), forms, ARRAY_LEN(forms)) : -1;

    if (i < 0)
        return jsonwalk_fail(w, err, "must be \"claude\", \"codex\", \"gemini\" or \"opencode\"");
    *(enum agent_mcp *)slot = (enum agent_mcp)i;
    return 0;
}

static int read_mcp(struct jsonwalk *w, json_t *v, void *agent, struct err *err) {
    static const struct jsonwalk_key keys[] = {{"file", read_path, AT(mcp_file)}, {"form", read_form, AT(mcp_form)}};
    int r = jsonwalk_members(w, v, keys, ARRAY_LEN(keys), agent, err);

    if (r == 0 && (!json_object_get(v, "file") || !json_object_get(v, "form")))
        return jsonwalk_fail(w, err, "needs \"file\" and \"form\"");
    return r;
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
        {"instructions", read_instructions, 0},
        {"skills", read_path, AT(skills)},
        {"mcp", read_mcp, 0},
        {"hosts", read_list, AT(hosts)},
        {"deny", read_list, AT(deny)},
        {"secret", read_secret, 0},
        {"url", read_url, 0},
        {"key_answer", read_answer, 0},
        {"config", read_config, 0},
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

int agent_read(const char *name, char *const *environ_, const char *home, struct agent *ret, struct err *err) {
    const struct builtin_file *b = builtin_find(builtin_agents, n_builtin_agents, name);
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
