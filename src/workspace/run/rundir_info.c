/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <jansson.h>

#include "base/err.h"
#include "base/pathtext.h"
#include "base/str.h"
#include "workspace/run/rundir_priv.h"

enum { INFO_VERSION = 1 };

void run_info_done(struct run_info *i) {
    free(i->workspace);
    free(i->branch);
    free(i->base_commit);
    strv_done(&i->command);
    *i = (struct run_info){0};
}

static bool copy_string(const char *from, char **ret) {
    *ret = from ? strdup(from) : NULL;
    return *ret || !from;
}

int run_info_copy(const struct run_info *from, struct run_info *ret, struct err *err) {
    CLEANUP(run_info_done) struct run_info copy = *from;
    bool ok;

    copy.command = (struct strv){0};
    copy.workspace = copy.branch = copy.base_commit = NULL;
    ok = copy_string(from->workspace, &copy.workspace) && copy_string(from->branch, &copy.branch) &&
         copy_string(from->base_commit, &copy.base_commit);
    for (size_t i = 0; ok && i < from->command.len; i++)
        ok = strv_add(&copy.command, from->command.v[i]) == 0;
    if (!ok)
        return err_oom(err);
    *ret = TAKE(copy, (struct run_info){0});
    return 0;
}

static json_t *encode(const char *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(RUN_INFO_MAX);

    if (!s)
        return json_null();
    path_text_add(&b, s);
    return buf_ok(&b) ? json_stringn(buf_str(&b), b.len) : NULL;
}

static json_t *encode_command(const struct strv *command) {
    json_t *list = json_array();

    for (size_t i = 0; list && i < command->len; i++)
        if (json_array_append_new(list, encode(command->v[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

int run_info_write(const struct run_info *i, struct buf *out, struct err *err) {
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"version", json_integer(INFO_VERSION)},
        {"mode", json_string(workspace_mode_names[i->mode])},
        {"workspace", encode(i->workspace)},
        {"begun_ns", json_integer((json_int_t)i->begun_ns)},
        {"ended_ns", json_integer((json_int_t)i->ended_ns)},
        {"status", json_integer(i->status)},
        {"command", encode_command(&i->command)},
        {"branch", encode(i->branch)},
        {"base_commit", encode(i->base_commit)},
        {"named", json_boolean(i->named)},
    };
    CLEANUP(json_decrefp) json_t *root = json_object();
    CLEANUP(freep) char *text = NULL;
    bool ok = true;

    for (size_t k = 0; k < ARRAY_LEN(members); k++)
        ok &= json_object_set_new(root, members[k].key, members[k].value) == 0; /* takes the value, also when it fails */
    text = ok ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (!text)
        return err_oom(err);
    buf_adds(out, text);
    buf_addc(out, '\n');
    return buf_ok(out) ? 0 : err_set(err, -EFBIG, "the description of the run is larger than %d bytes", RUN_INFO_MAX);
}

/* Each reader fills one member of the struct; false: the value is not what the member wants. */
struct rundir_member {
    const char *key;
    bool (*read)(const json_t *v, void *field);
    size_t offset;
};

static bool read_version(const json_t *v, void *field UNUSED) {
    return json_integer_value(v) == INFO_VERSION;
}

static bool read_mode(const json_t *v, void *field) {
    const char *name = json_string_value(v);

    for (int m = 0; name && m < WORKSPACE_MODES; m++)
        if (str_eq(name, workspace_mode_names[m])) {
            *(enum workspace_mode *)field = (enum workspace_mode)m;
            return true;
        }
    return false;
}

static bool read_string(const json_t *v, void *field) {
    char *s = json_is_string(v) ? path_text_parse(json_string_value(v)) : NULL;

    *(char **)field = s;
    return s;
}

static bool read_string_or_null(const json_t *v, void *field) {
    return json_is_null(v) || read_string(v, field);
}

static bool read_path(const json_t *v, void *field) {
    return read_string(v, field) && **(char **)field == '/';
}

static bool read_time(const json_t *v, void *field) {
    *(uint64_t *)field = (uint64_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool read_status(const json_t *v, void *field) {
    *(int *)field = (int)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) == *(int *)field;
}

static bool read_bool(const json_t *v, void *field) {
    *(bool *)field = json_is_true(v);
    return json_is_boolean(v);
}

static bool read_command(const json_t *v, void *field) {
    if (!json_is_array(v))
        return false;
    for (size_t i = 0; i < json_array_size(v); i++) {
        char *word = NULL;

        if (!read_string(json_array_get(v, i), &word) || strv_add_take(field, word) < 0)
            return false;
    }
    return true;
}

static const struct rundir_member members[] = {
    {"version", read_version, 0},
    {"mode", read_mode, offsetof(struct run_info, mode)},
    {"workspace", read_path, offsetof(struct run_info, workspace)},
    {"begun_ns", read_time, offsetof(struct run_info, begun_ns)},
    {"ended_ns", read_time, offsetof(struct run_info, ended_ns)},
    {"status", read_status, offsetof(struct run_info, status)},
    {"command", read_command, offsetof(struct run_info, command)},
    {"branch", read_string_or_null, offsetof(struct run_info, branch)},
    {"base_commit", read_string_or_null, offsetof(struct run_info, base_commit)},
    {"named", read_bool, offsetof(struct run_info, named)},
};

int run_info_parse(const char *text, size_t len, struct run_info *ret, struct err *err) {
    CLEANUP(run_info_done) struct run_info info = {0};
    CLEANUP(json_decrefp) json_t *root = NULL;
    json_error_t at;

    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
    if (!json_is_object(root))
        return err_set(err, -EBADMSG, "run.json is damaged: %s", root ? "not an object" : at.text);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const json_t *v = json_object_get(root, members[i].key);

        if (!v || !members[i].read(v, (char *)&info + members[i].offset))
            return err_set(err, -EBADMSG, "run.json is damaged: '%s' is missing or wrong", members[i].key);
    }
    *ret = TAKE(info, (struct run_info){0});
    return 0;
}
