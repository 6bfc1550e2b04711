/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.json and state.json: a table each, which both the reader and the writer follow. */
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "registry/registry_priv.h"

enum { VERSION = 1 };

const char *const box_phase_names[BOX_PHASES] = {
    [BOX_STARTING] = "starting", [BOX_RUNNING] = "running", [BOX_STOPPING] = "stopping",
    [BOX_STOPPED] = "stopped",   [BOX_FAILED] = "failed",
};

const char *const box_kind_names[BOX_KINDS] = {[BOX_KIND_PERSISTENT] = "persistent", [BOX_KIND_RUN] = "run"};

void box_info_done(struct box_info *i) {
    free(i->id);
    free(i->workspace);
    free(i->from);
    strv_done(&i->options);
    *i = (struct box_info){0};
}

void box_state_done(struct box_state *s) {
    strv_done(&s->cgroups);
    free(s->tmp);
    *s = (struct box_state){.phase = BOX_STOPPED};
}

int box_info_copy(const struct box_info *from, struct box_info *ret, struct err *err) {
    CLEANUP(box_info_done) struct box_info copy = {.created_ns = from->created_ns, .project = from->project};

    if (str_set(&copy.id, from->id) < 0 || str_set(&copy.workspace, from->workspace) < 0 || str_set(&copy.from, from->from) < 0 ||
        strv_add_all(&copy.options, &from->options) < 0)
        return err_oom(err);
    *ret = TAKE(copy, (struct box_info){0});
    return 0;
}

static const struct json_field info_fields[] = {
    JSON_VERSION("version", VERSION),
    JSON_STRING_OF("id", struct box_info, id, JSON_ENCODED),
    JSON_PATH("workspace", struct box_info, workspace),
    JSON_STRINGS("options", struct box_info, options, JSON_ENCODED, BOX_INFO_MAX),
    JSON_U64("created_ns", struct box_info, created_ns),
    JSON_STRING_OF("from", struct box_info, from, JSON_ENCODED | JSON_NULLABLE),
    JSON_BOOL("project", struct box_info, project),
};

static const struct json_field state_fields[] = {
    JSON_VERSION("version", VERSION),
    JSON_ENUM("phase", struct box_state, phase, box_phase_names),
    JSON_INT("pid", struct box_state, pid, 0, INT32_MAX),
    JSON_U64("start_time", struct box_state, start_time),
    JSON_CHARS("boot", struct box_state, boot, JSON_ENCODED),
    JSON_INT("init", struct box_state, init, 0, INT32_MAX),
    JSON_U64("since_ns", struct box_state, since_ns),
    JSON_U64("used_ns", struct box_state, used_ns),
    JSON_INT("status", struct box_state, status, INT32_MIN, INT32_MAX),
    JSON_CHARS("why", struct box_state, why, JSON_ENCODED),
    JSON_CHARS("engine", struct box_state, engine, JSON_ENCODED),
    JSON_CHARS("rung", struct box_state, rung, JSON_ENCODED),
    JSON_CHARS("mode", struct box_state, mode, JSON_ENCODED),
    JSON_CHARS("profile", struct box_state, profile, JSON_ENCODED),
    JSON_U64("memory", struct box_state, memory),
    JSON_U64("pids", struct box_state, pids),
    JSON_U64("cpus_milli", struct box_state, cpus_milli),
    JSON_STRINGS("cgroups", struct box_state, cgroups, JSON_ENCODED | JSON_ABSOLUTE, BOX_CGROUPS_MAX),
    JSON_STRING_OF("tmp", struct box_state, tmp, JSON_ENCODED | JSON_ABSOLUTE | JSON_OPTIONAL),
};

static const struct json_table info_table = {info_fields, ARRAY_LEN(info_fields)},
                               state_table = {state_fields, ARRAY_LEN(state_fields)};

int box_info_write(const struct box_info *i, struct buf *out, struct err *err) {
    return json_table_write(&info_table, i, JSON_INDENT(2), out, err);
}

int box_info_parse(const char *data, size_t len, struct box_info *ret, struct err *err) {
    CLEANUP(box_info_done) struct box_info i = {0};
    int r = json_table_parse(&info_table, data, len, BOX_INFO_MAX, &i, err);

    if (r < 0)
        return err_ctx(err, r, BOX_INFO_FILE " is damaged");
    *ret = TAKE(i, (struct box_info){0});
    return 0;
}

int box_state_write(const struct box_state *s, struct buf *out, struct err *err) {
    return json_table_write(&state_table, s, JSON_INDENT(2), out, err);
}

int box_state_parse(const char *data, size_t len, struct box_state *ret) {
    CLEANUP(box_state_done) struct box_state s = {0};
    int r = json_table_parse(&state_table, data, len, BOX_STATE_MAX, &s, NULL);

    if (r == 0)
        *ret = TAKE(s, (struct box_state){0});
    return r;
}
