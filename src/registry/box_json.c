/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.json and state.json: a table each, which both the reader and the writer follow. */
#include <errno.h>
#include <jansson.h>

#include "base/err.h"
#include "base/pathtext.h"
#include "base/str.h"
#include "registry/registry_priv.h"

enum { VERSION = 1 };

const char *const box_phase_names[BOX_PHASES] = {
    [BOX_STARTING] = "starting", [BOX_RUNNING] = "running", [BOX_STOPPING] = "stopping",
    [BOX_STOPPED] = "stopped",   [BOX_FAILED] = "failed",
};

void box_info_done(struct box_info *i) {
    free(i->id);
    free(i->workspace);
    free(i->from);
    strv_done(&i->options);
    *i = (struct box_info){0};
}

void box_state_done(struct box_state *s) {
    strv_done(&s->cgroups);
    *s = (struct box_state){.phase = BOX_STOPPED};
}

static bool copy_string(const char *from, char **ret) {
    *ret = from ? strdup(from) : NULL;
    return *ret || !from;
}

int box_info_copy(const struct box_info *from, struct box_info *ret, struct err *err) {
    CLEANUP(box_info_done) struct box_info copy = {.created_ns = from->created_ns, .project = from->project};
    bool ok =
        copy_string(from->id, &copy.id) && copy_string(from->workspace, &copy.workspace) && copy_string(from->from, &copy.from);

    for (size_t i = 0; ok && i < from->options.len; i++)
        ok = strv_add(&copy.options, from->options.v[i]) == 0;
    if (!ok)
        return err_oom(err);
    *ret = TAKE(copy, (struct box_info){0});
    return 0;
}

/* -- values ------------------------------------------------------------------------------------------------------------- */

static json_t *encode(const char *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(BOX_INFO_MAX);

    path_text_add(&b, s);
    return buf_ok(&b) ? json_stringn(buf_str(&b), b.len) : NULL;
}

static char *decode(const json_t *v) {
    return json_is_string(v) ? path_text_parse(json_string_value(v)) : NULL;
}

/* Each kind of value writes a member of a struct and reads it back; size: of the member. */
struct box_kind {
    json_t *(*write)(const void *field);
    bool (*read)(const json_t *v, void *field, size_t size);
};

static json_t *write_version(const void *field UNUSED) {
    return json_integer(VERSION);
}

static bool read_version(const json_t *v, void *field UNUSED, size_t size UNUSED) {
    return json_integer_value(v) == VERSION;
}

static json_t *write_string(const void *field) {
    const char *s = *(char *const *)field;

    return s ? encode(s) : json_null();
}

static bool read_string(const json_t *v, void *field, size_t size UNUSED) {
    *(char **)field = decode(v);
    return *(char **)field != NULL;
}

static bool read_path(const json_t *v, void *field, size_t size) {
    return read_string(v, field, size) && **(char **)field == '/';
}

static bool read_string_or_null(const json_t *v, void *field, size_t size) {
    return json_is_null(v) || read_string(v, field, size);
}

static json_t *write_text(const void *field) {
    return encode(field);
}

static bool read_text(const json_t *v, void *field, size_t size) {
    CLEANUP(freep) char *s = decode(v);

    return s && (size_t)snprintf(field, size, "%s", s) < size;
}

static json_t *write_u64(const void *field) {
    return json_integer((json_int_t) * (const uint64_t *)field);
}

static bool read_u64(const json_t *v, void *field, size_t size UNUSED) {
    *(uint64_t *)field = (uint64_t)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static_assert(sizeof(pid_t) == sizeof(int), "a pid is read as an int");

static json_t *write_int(const void *field) {
    return json_integer(*(const int *)field);
}

static bool read_int(const json_t *v, void *field, size_t size UNUSED) {
    *(int *)field = (int)json_integer_value(v);
    return json_is_integer(v) && json_integer_value(v) == *(int *)field;
}

static bool read_pid(const json_t *v, void *field, size_t size) {
    return read_int(v, field, size) && *(int *)field >= 0;
}

static json_t *write_bool(const void *field) {
    return json_boolean(*(const bool *)field);
}

static bool read_bool(const json_t *v, void *field, size_t size UNUSED) {
    *(bool *)field = json_is_true(v);
    return json_is_boolean(v);
}

static json_t *write_phase(const void *field) {
    return json_string(box_phase_names[*(const enum box_phase *)field]);
}

static bool read_phase(const json_t *v, void *field, size_t size UNUSED) {
    const char *name = json_string_value(v);

    for (int p = 0; name && p < BOX_PHASES; p++)
        if (str_eq(name, box_phase_names[p])) {
            *(enum box_phase *)field = (enum box_phase)p;
            return true;
        }
    return false;
}

static json_t *write_list(const void *field) {
    const struct strv *s = field;
    json_t *list = json_array();

    for (size_t i = 0; list && i < s->len; i++)
        if (json_array_append_new(list, encode(s->v[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static bool read_list(const json_t *v, void *field, size_t size UNUSED) {
    if (!json_is_array(v))
        return false;
    for (size_t i = 0; i < json_array_size(v); i++) {
        char *word = decode(json_array_get(v, i));

        if (!word || strv_add_take(field, word) < 0)
            return false;
    }
    return true;
}

static bool read_cgroups(const json_t *v, void *field, size_t size) {
    const struct strv *s = field;

    if (json_array_size(v) > BOX_CGROUPS_MAX || !read_list(v, field, size))
        return false;
    for (size_t i = 0; i < s->len; i++)
        if (s->v[i][0] != '/')
            return false;
    return true;
}

static const struct box_kind version = {write_version, read_version}, string = {write_string, read_string},
                             path = {write_string, read_path}, string_or_null = {write_string, read_string_or_null},
                             text = {write_text, read_text}, number = {write_u64, read_u64}, status = {write_int, read_int},
                             process = {write_int, read_pid}, boolean = {write_bool, read_bool},
                             phase = {write_phase, read_phase}, list = {write_list, read_list},
                             cgroups = {write_list, read_cgroups};

/* -- the two files ------------------------------------------------------------------------------------------------------ */

struct box_member {
    const char *key;
    const struct box_kind *kind;
    size_t offset, size;
};
#define INFO(key, kind, field) \
    { key, &kind, offsetof(struct box_info, field), sizeof(((struct box_info *)0)->field) }
#define STATE(key, kind, field) \
    { key, &kind, offsetof(struct box_state, field), sizeof(((struct box_state *)0)->field) }

static const struct box_member info_members[] = {
    {"version", &version, 0, 0},
    INFO("id", string, id),
    INFO("workspace", path, workspace),
    INFO("options", list, options),
    INFO("created_ns", number, created_ns),
    INFO("from", string_or_null, from),
    INFO("project", boolean, project),
};

static const struct box_member state_members[] = {
    {"version", &version, 0, 0},
    STATE("phase", phase, phase),
    STATE("pid", process, pid),
    STATE("start_time", number, start_time),
    STATE("boot", text, boot),
    STATE("init", process, init),
    STATE("since_ns", number, since_ns),
    STATE("used_ns", number, used_ns),
    STATE("status", status, status),
    STATE("why", text, why),
    STATE("engine", text, engine),
    STATE("rung", text, rung),
    STATE("mode", text, mode),
    STATE("profile", text, profile),
    STATE("memory", number, memory),
    STATE("pids", number, pids),
    STATE("cpus_milli", number, cpus_milli),
    STATE("cgroups", cgroups, cgroups),
};

static int write_members(const struct box_member *m, size_t n, const void *from, struct buf *out, struct err *err) {
    CLEANUP(json_decrefp) json_t *root = json_object();
    CLEANUP(freep) char *dump = NULL;
    bool ok = true;

    for (size_t i = 0; i < n; i++)
        ok &= json_object_set_new(root, m[i].key, m[i].kind->write((const char *)from + m[i].offset)) == 0;
    dump = ok ? json_dumps(root, JSON_INDENT(2)) : NULL;
    if (!dump)
        return err_oom(err);
    buf_adds(out, dump);
    buf_addc(out, '\n');
    return buf_ok(out) ? 0 : err_set(err, -EFBIG, "the description of the sandbox is larger than %zu bytes", out->ceiling);
}

static int read_members(const struct box_member *m, size_t n, const char *data, size_t len, void *to, struct err *err) {
    json_error_t at;
    CLEANUP(json_decrefp) json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES, &at);

    if (!json_is_object(root))
        return err_set(err, -EBADMSG, "%s", root ? "not an object" : at.text);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_object_get(root, m[i].key);

        if (!v || !m[i].kind->read(v, (char *)to + m[i].offset, m[i].size))
            return err_set(err, -EBADMSG, "'%s' is missing or wrong", m[i].key);
    }
    return 0;
}

int box_info_write(const struct box_info *i, struct buf *out, struct err *err) {
    return write_members(info_members, ARRAY_LEN(info_members), i, out, err);
}

int box_info_parse(const char *data, size_t len, struct box_info *ret, struct err *err) {
    CLEANUP(box_info_done) struct box_info i = {0};
    int r = read_members(info_members, ARRAY_LEN(info_members), data, len, &i, err);

    if (r < 0)
        return err_ctx(err, r, BOX_INFO_FILE " is damaged");
    *ret = TAKE(i, (struct box_info){0});
    return 0;
}

int box_state_write(const struct box_state *s, struct buf *out, struct err *err) {
    return write_members(state_members, ARRAY_LEN(state_members), s, out, err);
}

int box_state_parse(const char *data, size_t len, struct box_state *ret) {
    CLEANUP(box_state_done) struct box_state s = {0};
    int r = read_members(state_members, ARRAY_LEN(state_members), data, len, &s, NULL);

    if (r == 0)
        *ret = TAKE(s, (struct box_state){0});
    return r;
}
