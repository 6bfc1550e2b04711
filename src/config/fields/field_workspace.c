/* SPDX-License-Identifier: Apache-2.0 */
/* How the sandbox has the workspace: the mode, patterns, volumes, and files shown in place of others. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/pathtext.h"
#include "base/str.h"
#include "base/vec.h"
#include "config/fields/field.h"

const char *const workspace_mode_names[WORKSPACE_MODES] = {
    [WORKSPACE_DIRECT] = "direct",     [WORKSPACE_OVERLAY] = "overlay", [WORKSPACE_SYNC] = "sync",
    [WORKSPACE_WORKTREE] = "worktree", [WORKSPACE_RO] = "ro",
};

/* What reaches the host without a further word of the user's: nothing; after a review; at the end, sensitive paths held
 * back; at once. */
static const int reach[WORKSPACE_MODES] = {
    [WORKSPACE_RO] = 0, [WORKSPACE_OVERLAY] = 1, [WORKSPACE_WORKTREE] = 1, [WORKSPACE_SYNC] = 2, [WORKSPACE_DIRECT] = 3};

static int mode_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    int i = str_index(text, workspace_mode_names, WORKSPACE_MODES);

    if (i < 0)
        return field_unknown_word(text, "known", workspace_mode_names, WORKSPACE_MODES, err);
    out->workspace.mode = (enum workspace_mode)i;
    return 0;
}

static bool mode_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return reach[s->workspace.mode] <= reach[than->workspace.mode];
}

static int mode_merge(const struct field *f, struct settings *into, const struct settings *from) {
    into->workspace.mode = from->workspace.mode;
    return 0;
}

static void mode_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    buf_addf(b, "\"%s\"", workspace_mode_names[s->workspace.mode]);
}

const struct field_type type_workspace_mode = {
    .from_text = mode_from_text, .within = mode_within, .merge = mode_merge, .add_json = mode_add_json};

/* Lists of paths and patterns that add up over the levels */

static int add_path(void *list, const char *text, struct err *err) {
    struct strv *paths = list;

    if (!*text || strchr(text, '\n') || strlen(text) >= WORKSPACE_PATH_MAX)
        return err_usage(err, "must be one line of 1 to %d bytes", WORKSPACE_PATH_MAX - 1);
    if (paths->len == WORKSPACE_LIST_MAX)
        return err_usage(err, "more than %d entries", WORKSPACE_LIST_MAX);
    return strv_add(paths, text) < 0 ? err_oom(err) : 0;
}

static int paths_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    struct strv *list = member(f, out);
    int r = field_read_strings(w, v, "an array of strings", add_path, list, err);

    return r < 0 ? r : list->len == 0;
}

/* Patterns: order counts, and so does one that is there twice. */
static int paths_merge(const struct field *f, struct settings *into, const struct settings *from) {
    return strv_add_all(member(f, into), member_of(f, from));
}

/* A project may protect more of its files, never less. */
static bool protect_within(const struct field *f, const struct settings *s, const struct settings *than) {
    for (size_t i = 0; i < s->workspace.protect.len; i++)
        if (s->workspace.protect.v[i][0] == '!')
            return false;
    return true;
}

/* Below the workspace, written plainly: what is compared later is the text. */
static bool workspace_path_is_good(const char *path) {
    return strlen(path) < WORKSPACE_PATH_MAX && path_is_below(path, strlen(path));
}

static int volumes_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    int r = paths_from_json(f, w, v, out, err);

    for (size_t i = 0; r >= 0 && i < out->workspace.volumes.len; i++)
        if (!workspace_path_is_good(out->workspace.volumes.v[i]) || str_eq(out->workspace.volumes.v[i], ".git") ||
            str_starts(out->workspace.volumes.v[i], ".git/"))
            return jsonwalk_fail(w, err, "'%.80s' must be the path of a folder below the workspace, such as \"node_modules\"",
                                 out->workspace.volumes.v[i]);
    return r;
}

static bool volumes_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return s->workspace.volumes.len == 0;
}

#define LIST .merge = paths_merge, .add_json = list_add_json, .adds_up = true
const struct field_type type_protect = {LIST, .from_json = paths_from_json, .within = protect_within};
const struct field_type type_volumes = {LIST, .from_json = volumes_from_json, .within = volumes_within};

/* Substitutes: {".env": ".env.sandbox"} */

void substitutes_done(struct settings *s) {
    for (size_t i = 0; i < s->workspace.n_substitutes; i++) {
        free(s->workspace.substitutes[i].path);
        free(s->workspace.substitutes[i].shown);
    }
    free(s->workspace.substitutes);
}

static int substitute_put(struct settings *s, const char *path, const char *shown) {
    struct substitute_spec *one = NULL;

    for (size_t i = 0; i < s->workspace.n_substitutes; i++)
        if (str_eq(s->workspace.substitutes[i].path, path))
            one = &s->workspace.substitutes[i];
    if (!one)
        one = VEC_NEW(s->workspace.substitutes, s->workspace.n_substitutes);
    return !one || str_set(&one->path, path) < 0 || str_set(&one->shown, shown) < 0 ? -ENOMEM : 0;
}

static int read_substitute(struct jsonwalk *w, json_t *v, void *settings, struct err *err) {
    const char *path = jsonwalk_key_of(w), *shown = json_string_value(v);

    if (!shown)
        return jsonwalk_wrong_type(w, v, "a string", err);
    if (!workspace_path_is_good(path) || !workspace_path_is_good(shown))
        return jsonwalk_fail(w, err, "both must be paths below the workspace, such as \"config/.env\"");
    return substitute_put(settings, path, shown) < 0 ? err_oom(err) : 0;
}

static int substitutes_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    int r;

    if (!json_is_object(v))
        return jsonwalk_wrong_type(w, v, "an object of paths and the files shown in their place", err);
    if (json_object_size(v) > WORKSPACE_LIST_MAX)
        return jsonwalk_fail(w, err, "more than %d entries", WORKSPACE_LIST_MAX);
    r = jsonwalk_each(w, v, read_substitute, out, err);
    return r < 0 ? r : out->workspace.n_substitutes == 0;
}

/* The file that is shown may be a hidden one: not for a project to say. */
static bool substitutes_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return s->workspace.n_substitutes == 0;
}

static int substitutes_merge(const struct field *f, struct settings *into, const struct settings *from) {
    for (size_t i = 0; i < from->workspace.n_substitutes; i++)
        if (substitute_put(into, from->workspace.substitutes[i].path, from->workspace.substitutes[i].shown) < 0)
            return -ENOMEM;
    return 0;
}

static void substitutes_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    struct jsonout j = {.to = b};

    buf_addc(b, '{');
    for (size_t i = 0; i < s->workspace.n_substitutes; i++)
        field_add_pair(&j, s->workspace.substitutes[i].path, s->workspace.substitutes[i].shown);
    buf_addc(b, '}');
}

const struct field_type type_substitutes = {.from_json = substitutes_from_json,
                                            .within = substitutes_within,
                                            .merge = substitutes_merge,
                                            .add_json = substitutes_add_json,
                                            .adds_up = true};
