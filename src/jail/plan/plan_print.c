/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/buf.h"
#include "base/parse.h"
#include "config/settings.h"
#include "jail/plan/plan.h"

enum { NETWORK_TEXT_MAX = 64 * 1024 };

static void line(struct buf *out, const char *name, const char *value, const char *origin) {
    buf_addf(out, "%-18s ", name);
    buf_add_printable(out, value);
    if (origin) {
        buf_adds(out, "   (");
        buf_add_printable(out, origin);
        buf_adds(out, ")");
    }
    buf_addc(out, '\n');
}

static void size_line(struct buf *out, const char *name, uint64_t bytes, const char *origin) {
    char n[24];

    format_size(bytes, n);
    line(out, name, bytes ? n : "no limit", origin);
}

static void limit_lines(const struct plan *p, const struct settings *s, struct buf *out) {
    const struct limits *l = &p->limits;
    char n[32];

    snprintf(n, sizeof n, "%" PRIu64 ".%03" PRIu64, l->cpus_milli / 1000, l->cpus_milli % 1000);
    line(out, "cpus", l->cpus_milli ? n : "no limit", s->origin[SETTING_CPUS]);
    size_line(out, "memory", l->memory, s->origin[SETTING_MEMORY]);
    snprintf(n, sizeof n, "%" PRIu64, l->pids);
    line(out, "processes", l->pids ? n : "no limit", s->origin[SETTING_PIDS]);
    size_line(out, "disk", l->disk, s->origin[SETTING_DISK]);
    format_duration(l->timeout_ms, n);
    line(out, "time", l->timeout_ms ? n : "no limit", s->origin[SETTING_TIMEOUT]);
    size_line(out, "private areas", p->private_size, NULL);
}

static const char *step_origin(const struct step *s, const struct settings *set) {
    switch (s->kind) {
    case STEP_EXTRA:
        return set->origin[SETTING_MOUNTS];
    case STEP_WORKSPACE:
    case STEP_OVERLAY:
        return set->origin[set->workspace_writable ? SETTING_WORKSPACE_MODE : SETTING_WORKSPACE_WRITABLE];
    case STEP_SUBSTITUTE:
        return set->origin[SETTING_WORKSPACE_SUBSTITUTE];
    case STEP_DIR:
    case STEP_SYMLINK:
    case STEP_FILE:
    case STEP_COPY:
    case STEP_RO:
    case STEP_PRIVATE:
    case STEP_DEVICE:
    case STEP_PTS:
    case STEP_PROC:
    case STEP_PROC_RO:
    case STEP_MASK:
    case STEP_HIDE:
    case STEP_HIDE_AGAIN:
    case STEP_WHITEOUT:
    case STEP_KIND_COUNT:
        return NULL;
    }
    BUG("step kind");
}

static void step_line(const struct step *s, const struct settings *set, struct buf *out) {
    const char *origin = step_origin(s, set);

    buf_addf(out, "  %-10s ", step_kind_names[s->kind]);
    buf_add_printable(out, s->to);
    if (s->from && s->kind != STEP_FILE && s->kind != STEP_PRIVATE && s->kind != STEP_HIDE && s->kind != STEP_HIDE_AGAIN &&
        s->kind != STEP_WHITEOUT) {
        buf_adds(out, " <- ");
        buf_add_printable(out, s->from);
    }
    if (s->kind == STEP_WORKSPACE || s->kind == STEP_EXTRA)
        buf_adds(out, s->writable ? " rw" : " ro");
    if (s->optional)
        buf_adds(out, " if present");
    if (origin) {
        buf_adds(out, "   (");
        buf_add_printable(out, origin);
        buf_adds(out, ")");
    }
    buf_addc(out, '\n');
}

/* What there will be, which may be less than what was asked for. */
static void network_line(const struct plan *p, const struct settings *s, struct buf *out) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(NETWORK_TEXT_MAX);

    if (p->network)
        settings_add_text(s, SETTING_NETWORK, &text);
    else
        buf_adds(&text, s->network == NETWORK_NONE ? "none" : "none: this rung has no network namespace to hold one");
    if (p->network)
        buf_adds(&text, ", by the gate");
    line(out, "network", buf_str(&text), s->origin[SETTING_NETWORK]);
}

void plan_print_text(const struct plan *p, const struct settings *s, struct buf *out) {
    char ids[96];

    line(out, "engine", s->engine, s->origin[SETTING_ENGINE]);
    line(out, "rung", rung_names[p->rung], NULL);
    line(out, "profile", s->profile ? s->profile : "none", s->origin[SETTING_PROFILE]);
    line(out, "workspace", p->workspace, NULL);
    line(out, "workspace mode", workspace_mode_names[p->mode],
         s->origin[s->workspace_writable ? SETTING_WORKSPACE_MODE : SETTING_WORKSPACE_WRITABLE]);
    line(out, "home", p->home, NULL);
    snprintf(ids, sizeof ids, "%u:%u inside, %u:%u on the host%s", p->ids.inside_uid, p->ids.inside_gid, p->ids.host_uid,
             p->ids.host_gid, p->ids.by_root ? ", the workspace's files idmapped" : "");
    line(out, "user", ids, NULL);
    network_line(p, s, out);
    limit_lines(p, s, out);
    buf_addf(out, "%-18s %s\n", "second fence", p->landlock_abi > 0 ? "Landlock" : "none (no Landlock)");
    buf_adds(out, "environment\n");
    for (size_t i = 0; i < p->env.len; i++) {
        buf_adds(out, "  ");
        buf_add_printable(out, p->env.v[i]);
        buf_addc(out, '\n');
    }
    buf_adds(out, "files\n");
    for (size_t i = 0; i < p->n_steps; i++)
        step_line(&p->steps[i], s, out);
    buf_adds(out, "command\n ");
    for (size_t i = 0; i < p->argc; i++) {
        CLEANUP(buf_done) struct buf word = BUF_INIT(1 << 20);

        buf_add_shell(&word, p->argv[i]);
        buf_addc(out, ' ');
        buf_add_printable(out, buf_str(&word));
    }
    buf_addc(out, '\n');
}

static void json_string(struct buf *out, const char *key, const char *value) {
    buf_addf(out, "\"%s\":", key);
    if (value)
        buf_add_json(out, value);
    else
        buf_adds(out, "null");
}

static void json_strings(struct buf *out, const char *key, char *const *v, size_t n) {
    buf_addf(out, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_addc(out, ',');
        buf_add_json(out, v[i]);
    }
    buf_addc(out, ']');
}

static void json_step(const struct step *s, struct buf *out) {
    buf_addc(out, '{');
    json_string(out, "kind", step_kind_names[s->kind]);
    buf_addc(out, ',');
    json_string(out, "to", s->to);
    buf_addc(out, ',');
    json_string(out, "from", s->kind == STEP_FILE || s->kind == STEP_PRIVATE ? NULL : s->from);
    buf_addf(out, ",\"writable\":%s,\"optional\":%s}", s->writable ? "true" : "false", s->optional ? "true" : "false");
}

static void json_origins(const struct settings *s, struct buf *out) {
    buf_adds(out, ",\"origin\":{");
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (i)
            buf_addc(out, ',');
        json_string(out, setting_names[i], s->origin[i]);
    }
    buf_addc(out, '}');
}

void plan_print_json(const struct plan *p, const struct settings *s, struct buf *out) {
    const struct limits *l = &p->limits;

    buf_addc(out, '{');
    json_string(out, "engine", s->engine);
    buf_addc(out, ',');
    json_string(out, "rung", rung_names[p->rung]);
    buf_addc(out, ',');
    json_string(out, "profile", s->profile);
    buf_addc(out, ',');
    json_string(out, "workspace", p->workspace);
    buf_addc(out, ',');
    json_string(out, "home", p->home);
    buf_addf(out, ",\"inside_uid\":%u,\"inside_gid\":%u,\"host_uid\":%u,\"host_gid\":%u,\"idmapped\":%s,\"network\":",
             p->ids.inside_uid, p->ids.inside_gid, p->ids.host_uid, p->ids.host_gid, p->ids.by_root ? "true" : "false");
    if (p->network)
        settings_add_value(s, SETTING_NETWORK, out);
    else
        buf_adds(out, "\"none\"");
    buf_addf(out,
             ",\"limits\":{\"cpus\":%" PRIu64 ".%03" PRIu64 ",\"memory\":%" PRIu64 ",\"swap\":%" PRIu64 ",\"pids\":%" PRIu64
             ",\"disk\":%" PRIu64 ",\"timeout_ms\":%" PRIu64 ",\"private\":%" PRIu64 "},\"landlock_abi\":%d",
             l->cpus_milli / 1000, l->cpus_milli % 1000, l->memory, l->swap, l->pids, l->disk, l->timeout_ms, p->private_size,
             p->landlock_abi);
    json_strings(out, "env", p->env.v, p->env.len);
    json_strings(out, "command", p->argv, p->argc);
    json_origins(s, out);
    buf_adds(out, ",\"files\":[");
    for (size_t i = 0; i < p->n_steps; i++) {
        if (i)
            buf_addc(out, ',');
        json_step(&p->steps[i], out);
    }
    buf_adds(out, "]}\n");
}
