/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the three kinds of configuration files. */
#include "config/load/config_file.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"

static int layer_name(struct layer *l, const struct jsonfile *d, struct err *err, char *origin) {
    l->origin = origin;
    l->file = strdup(d->name);
    return l->origin && l->file ? 0 : err_oom(err);
}

/* A profile in the workspace is content without a hash, so a project may use names only. */
static int check_profile_name(const struct layer *l, const struct jsonwalk *w, bool project, struct err *err) {
    const char *name = l->values.profile;
    struct jsonwalk at = *w;

    if (!name || !strchr(name, '/'))
        return 0;
    jsonwalk_enter(&at, "profile");
    if (project)
        return jsonwalk_fail(&at, err, "'%.200s' is a path, but a project's file may only name a profile", name);
    if (name[0] != '/' && !str_starts(name, "~/"))
        return jsonwalk_fail(&at, err, "path '%.200s' must be absolute here", name);
    return 0;
}

/* A hook is a program that runs outside the sandbox: not even a trusted project names one. */
static int check_hook(const struct layer *l, const struct jsonwalk *w, bool project, struct err *err) {
    struct jsonwalk at = *w;

    if (!project || !l->values.question.hook)
        return 0;
    jsonwalk_enter(&at, "askHook");
    return jsonwalk_fail(&at, err, "only the user's and the organisation's file may name a program to run on the host");
}

static int read_sandbox(struct jsonwalk *w, json_t *v, bool project, bool positions, struct layer *l, struct err *err) {
    int r = layer_read(l, w, v, IN_SANDBOX, positions, err);

    r = r < 0 ? r : check_profile_name(l, w, project, err);
    return r < 0 ? r : check_hook(l, w, project, err);
}

static int only_key(struct jsonwalk *w, json_t *object, const char *wanted, struct err *err) {
    const char *key;
    json_t *v;

    if (!json_is_object(object))
        return jsonwalk_wrong_type(w, object, "an object", err);
    json_object_foreach(object, key, v) {
        if (str_eq(key, wanted) || (w->depth == 0 && str_eq(key, "$schema") && json_is_string(v)))
            continue;
        jsonwalk_enter(w, key);
        return jsonwalk_unknown_key(w, str_nearest(key, &wanted, 1), wanted, err);
    }
    return 0;
}

static int read_agents(struct jsonwalk *w, json_t *agents, bool project, const char *name, struct layer *ret, struct err *err) {
    const char *key;
    json_t *v;

    if (!json_is_object(agents))
        return jsonwalk_wrong_type(w, agents, "an object of agents", err);
    if (json_object_size(agents) > AGENTS_MAX)
        return jsonwalk_fail(w, err, "more than %d agents", AGENTS_MAX);
    json_object_foreach(agents, key, v) {
        CLEANUP(layer_done) struct layer unused = {0};
        bool chosen = name && str_eq(key, name);
        json_t *section;
        int r;

        jsonwalk_enter(w, key);
        r = only_key(w, v, "sandbox", err);
        if (r < 0)
            return r;
        section = json_object_get(v, "sandbox");
        jsonwalk_enter(w, "sandbox");
        r = section ? read_sandbox(w, section, project, chosen, chosen ? ret : &unused, err) : 0;
        if (r < 0)
            return r;
        jsonwalk_leave(w);
        jsonwalk_leave(w);
    }
    return 0;
}

static int read_top(struct jsonwalk *w, bool project, const char *agent, struct layer *base, struct layer *ret_agent,
                    struct err *err) {
    static const char *const known[] = {"sandbox", "agent"};
    const char *key;
    json_t *v;

    json_object_foreach(w->file->root, key, v) {
        int r;

        if (str_eq(key, "$schema") && json_is_string(v))
            continue;
        jsonwalk_enter(w, key);
        if (str_eq(key, "sandbox"))
            r = read_sandbox(w, v, project, true, base, err);
        else if (str_eq(key, "agent"))
            r = read_agents(w, v, project, agent, ret_agent, err);
        else
            r = jsonwalk_unknown_key(w, str_nearest(key, known, ARRAY_LEN(known)), "sandbox, agent", err);
        if (r < 0)
            return r;
        jsonwalk_leave(w);
    }
    return 0;
}

int file_read_config(const struct jsonfile *d, const char *level, const char *home, const char *agent, struct layer *base,
                     struct layer *ret_agent, struct err *err) {
    struct jsonwalk w = {.file = d, .home = home};
    int r;

    r = layer_name(base, d, err, str_dupf("%s (%s)", level, d->name));
    if (r < 0)
        return r;
    r = layer_name(ret_agent, d, err, str_dupf("agent %s, %s (%s)", agent ? agent : "", level, d->name));
    if (r < 0)
        return r;
    return read_top(&w, str_eq(level, "project"), agent, base, ret_agent, err);
}

int file_read_profile(const struct jsonfile *d, const char *home, const char *origin, struct layer *l, struct err *err) {
    struct jsonwalk w = {.file = d, .home = home};
    int r = layer_name(l, d, err, strdup(origin));

    return r < 0 ? r : layer_read(l, &w, d->root, IN_PROFILE, false, err);
}

int file_read_policy(const struct jsonfile *d, struct layer *l, struct err *err) {
    struct jsonwalk w = {.file = d};
    json_t *floor;
    int r;

    r = layer_name(l, d, err, str_dupf("organisation (%s)", d->name));
    if (r < 0)
        return r;
    r = only_key(&w, d->root, "floor", err);
    if (r < 0)
        return r;
    floor = json_object_get(d->root, "floor");
    if (!floor) /* an organisation that writes a policy means one: an empty file is a slip, not a wish */
        return jsonwalk_fail(&w, err, "key 'floor' is missing");
    jsonwalk_enter(&w, "floor");
    return layer_read(l, &w, floor, IN_FLOOR, false, err);
}

int file_agents(const struct jsonfile *d, struct strv *ret) {
    json_t *agents = json_object_get(d->root, "agent"), *v;
    const char *key;

    json_object_foreach(agents, key, v) {
        if (strv_add(ret, key) < 0)
            return -ENOMEM;
    }
    return 0;
}
