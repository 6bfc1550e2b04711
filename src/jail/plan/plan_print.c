/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn run --dry-run` and `bawn explain`: the plan as text and as JSON. */
#include <inttypes.h>
#include <limits.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/parse.h"
#include "config/settings.h"
#include "jail/plan/plan.h"

enum { NETWORK_TEXT_MAX = 64 * 1024 };

static void end_line(struct buf *out, const char *origin) {
    if (origin) {
        buf_adds(out, "   (");
        buf_add_printable(out, origin);
        buf_adds(out, ")");
    }
    buf_addc(out, '\n');
}

static void line(struct buf *out, const char *name, const char *value, const char *origin) {
    buf_addf(out, "%-18s ", name);
    buf_add_printable(out, value);
    end_line(out, origin);
}

static void size_line(struct buf *out, const char *name, uint64_t bytes, const char *origin) {
    char n[24];

    format_size(bytes, n);
    line(out, name, bytes ? n : "no limit", origin);
}

/* By itself it is no more than the private areas, which are in memory. */
static void tmp_line(const struct plan *p, const struct settings *s, struct buf *out) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(2 * PATH_MAX);
    char n[24];

    format_size(p->tmp_size, n);
    buf_addf(&text, "%s on disk, in %s", n, p->private_dir);
    line(out, p->home_persistent ? "/tmp" : "home and /tmp", buf_str(&text), s->origin[SETTING_TMP]);
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
    size_line(out, "private areas", p->private_size, p->tmp_size ? NULL : s->origin[SETTING_TMP]);
    if (p->tmp_size)
        tmp_line(p, s, out);
}

static const char *workspace_origin(const struct settings *s) {
    return s->origin[s->workspace.writable ? SETTING_WORKSPACE_MODE : SETTING_WORKSPACE_WRITABLE];
}

static const char *step_origin(const struct step *s, const struct settings *set) {
    if (s->kind == STEP_EXTRA)
        return set->origin[s->optional ? SETTING_HOME_TOOLS : SETTING_MOUNTS];
    if (s->kind == STEP_WORKSPACE || s->kind == STEP_OVERLAY)
        return workspace_origin(set);
    return s->kind == STEP_SUBSTITUTE ? set->origin[SETTING_WORKSPACE_SUBSTITUTE] : NULL;
}

static void step_line(const struct step *s, const struct settings *set, struct buf *out) {
    buf_addf(out, "  %-10s ", step_kind_names[s->kind]);
    buf_add_printable(out, s->to);
    if (s->from && s->kind != STEP_FILE && (s->kind != STEP_PRIVATE || s->on_disk) && s->kind != STEP_HIDE &&
        s->kind != STEP_HIDE_AGAIN && s->kind != STEP_WHITEOUT) {
        buf_adds(out, " <- ");
        buf_add_printable(out, s->from);
    }
    if (s->kind == STEP_WORKSPACE || s->kind == STEP_EXTRA)
        buf_adds(out, s->writable ? " rw" : " ro");
    if (s->optional)
        buf_adds(out, " if present");
    end_line(out, step_origin(s, set));
}

/* What there will be, which may be less than what was asked for. */
static void network_line(const struct plan *p, const struct settings *s, struct buf *out) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(NETWORK_TEXT_MAX);

    if (p->network) {
        settings_add_text(s, SETTING_NETWORK, &text);
        buf_adds(&text, ", by the gate");
    } else {
        buf_adds(&text, s->net.mode == NETWORK_NONE ? "none" : "none: this rung has no network namespace to hold one");
    }
    line(out, "network", buf_str(&text), s->origin[SETTING_NETWORK]);
}

void plan_print_text(const struct plan *p, const struct settings *s, struct buf *out) {
    char ids[96];

    line(out, "engine", s->engine, s->origin[SETTING_ENGINE]);
    line(out, "rung", rung_names[p->rung], NULL);
    line(out, "profile", s->profile ? s->profile : "none", s->origin[SETTING_PROFILE]);
    if (p->image)
        line(out, "image", p->image->name, s->origin[SETTING_IMAGE]);
    if (p->writable_system)
        line(out, "system", "writable, on a copy", s->origin[SETTING_SYSTEM]);
    if (p->nested)
        line(out, "nested", "a container engine runs inside", s->origin[SETTING_NESTED]);
    line(out, "workspace", p->workspace, NULL);
    line(out, "workspace mode", workspace_mode_names[p->mode], workspace_origin(s));
    line(out, "home", p->home, NULL);
    snprintf(ids, sizeof ids, "%u:%u inside, %u:%u on the host%s", p->ids.inside_uid, p->ids.inside_gid, p->ids.host_uid,
             p->ids.host_gid, p->ids.by_root ? ", the workspace's files idmapped" : "");
    line(out, "user", ids, NULL);
    network_line(p, s, out);
    limit_lines(p, s, out);
    buf_addf(out, "%-18s %s\n", "second fence",
             p->nested             ? "none around files (--nested); Landlock for signals and sockets"
             : p->landlock_abi > 0 ? "Landlock"
                                   : "none (no Landlock)");
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

static void json_step(const struct step *s, struct jsonout *j) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "kind", step_kind_names[s->kind]);
    jsonout_text(j, "to", s->to);
    jsonout_text(j, "from", s->kind == STEP_FILE || (s->kind == STEP_PRIVATE && !s->on_disk) ? NULL : s->from);
    jsonout_bool(j, "writable", s->writable);
    jsonout_bool(j, "optional", s->optional);
    jsonout_close(j, '}');
}

static void json_limits(const struct plan *p, struct jsonout *j) {
    const struct limits *l = &p->limits;

    jsonout_open(j, "limits", '{');
    jsonout_key(j, "cpus");
    buf_addf(j->to, "%" PRIu64 ".%03" PRIu64, l->cpus_milli / 1000, l->cpus_milli % 1000);
    jsonout_u64(j, "memory", l->memory);
    jsonout_u64(j, "swap", l->swap);
    jsonout_u64(j, "pids", l->pids);
    jsonout_u64(j, "disk", l->disk);
    jsonout_u64(j, "timeout_ms", l->timeout_ms);
    jsonout_u64(j, "private", p->private_size);
    jsonout_u64(j, "tmp", p->tmp_size);
    jsonout_close(j, '}');
}

static void json_head(const struct plan *p, const struct settings *s, struct jsonout *j) {
    jsonout_text(j, "engine", s->engine);
    jsonout_text(j, "rung", rung_names[p->rung]);
    jsonout_text(j, "profile", s->profile);
    jsonout_text(j, "image", p->image ? p->image->name : NULL);
    jsonout_text(j, "image_id", p->image ? p->image->id : NULL);
    jsonout_text(j, "workspace", p->workspace);
    jsonout_text(j, "home", p->home);
    jsonout_text(j, "private_dir", p->private_dir);
    jsonout_bool(j, "writable_system", p->writable_system);
    jsonout_u64(j, "ids", 1 + (uint64_t)p->ids.more_uids.n);
    jsonout_bool(j, "nested", p->nested);
    jsonout_u64(j, "inside_uid", p->ids.inside_uid);
    jsonout_u64(j, "inside_gid", p->ids.inside_gid);
    jsonout_u64(j, "host_uid", p->ids.host_uid);
    jsonout_u64(j, "host_gid", p->ids.host_gid);
    jsonout_bool(j, "idmapped", p->ids.by_root);
    jsonout_key(j, "network");
    if (p->network)
        settings_add_value(s, SETTING_NETWORK, j->to);
    else
        buf_adds(j->to, "\"none\"");
}

void plan_print_json(const struct plan *p, const struct settings *s, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    json_head(p, s, &j);
    json_limits(p, &j);
    jsonout_int(&j, "landlock_abi", p->landlock_abi);
    jsonout_list(&j, "env", &p->env);
    jsonout_strings(&j, "command", p->argv, p->argc);
    jsonout_open(&j, "origin", '{');
    for (int i = 0; i < SETTING_COUNT; i++)
        jsonout_text(&j, setting_names[i], s->origin[i]);
    jsonout_close(&j, '}');
    jsonout_open(&j, "files", '[');
    for (size_t i = 0; i < p->n_steps; i++)
        json_step(&p->steps[i], &j);
    buf_adds(out, "]}\n");
}
