/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people and for programs. Everything is appended to a buffer. */
#include "cli/setup/doctor_print.h"

#include <string.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "cli/help/manual.h"

static const char *paint(enum verdict v, bool colour) {
    static const char *const codes[VERDICT_COUNT] = {"\033[32m", "", "\033[33m", "\033[31m"};

    return colour ? codes[v] : "";
}

static void add_check(struct buf *b, const struct check *c, const struct doctor_facts *f, bool colour) {
    struct doctor_finding r = check_run(c, f);

    buf_addf(b, "  %s%-8s%s%-24s", paint(r.verdict, colour), verdict_names[r.verdict], colour ? "\033[0m" : "", c->name);
    buf_add_printable(b, r.value);
    buf_addc(b, '\n');
    if (r.verdict >= VERDICT_WARN)
        buf_addf(b, "          matters because: %s\n", c->why);
    if (r.remedy[0]) {
        buf_adds(b, "          remedy: ");
        buf_add_printable(b, r.remedy);
        buf_addc(b, '\n');
    }
}

static void add_set(struct buf *b, const char *label, unsigned set) {
    buf_addf(b, "    %-9s", label);
    for (int g = 0; g < GUARANTEE_COUNT; g++)
        if (set & (1u << g))
            buf_addf(b, " %s", guarantee_names[g]);
    buf_adds(b, set ? "\n" : " nothing\n");
}

static void add_rung(struct buf *b, const struct doctor_engine *v, size_t i) {
    const struct engine_state *s = &v->states[i];

    bool one = str_eq(v->ops->name, v->names[i]);

    buf_addf(b, "  %s%s%s: %s", v->ops->name, one ? "" : "/", one ? "" : v->names[i],
             s->available ? "available" : "not available");
    if (s->why[0]) {
        buf_adds(b, "; ");
        buf_add_printable(b, s->why);
    }
    buf_addc(b, '\n');
    if (!s->available)
        return;
    add_set(b, "enforces", s->keeps);
    /* A kernel of its own is a stronger wall, not a part of this one. */
    add_set(b, "lacks", ~s->keeps & (unsigned)(ENFORCES_EVERYTHING & ~ENFORCES_KERNEL));
}

/* Engines that never have it are not named one by one. */
static void add_nested(struct buf *b, const struct doctor_facts *f, const struct doctor_engine *v) {
    struct doctor_nested n;

    if (!v->ops->has_nested)
        return;
    doctor_nested(f, v->ops, &n);
    buf_addf(b, "  containers inside (--nested), engine %s only: %s", v->ops->name,
             n.available ? "available" : "not available; ");
    buf_add_printable(b, n.why);
    if (n.remedy[0]) {
        buf_adds(b, "; remedy: ");
        buf_add_printable(b, n.remedy);
    }
    buf_addc(b, '\n');
}

enum { COLUMN = 10 };

/* One column for each rung that is available; why the others are not follows the table. */
static void add_column(struct buf *b, const struct doctor_engine *v,
                       const char *(*text)(const struct doctor_engine *, size_t, int), int g) {
    for (size_t i = 0; i < v->n; i++)
        if (v->states[i].available)
            buf_addf(b, "%-*s", (int)MAX_OF(strlen(v->names[i]) + 2, (size_t)COLUMN), text(v, i, g));
}

static const char *column_head(const struct doctor_engine *v, size_t i, int g) {
    (void)g;
    return v->names[i];
}

static const char *column_cell(const struct doctor_engine *v, size_t i, int g) {
    return v->states[i].keeps & (1u << g) ? "enforced" : "-";
}

/* What each guarantee means, and which rungs enforce it here. */
static void add_guarantees(struct buf *b, const struct doctor_engine *views, size_t n) {
    buf_addf(b, "  %-14s", "");
    for (size_t e = 0; e < n; e++)
        add_column(b, &views[e], column_head, 0);
    buf_adds(b, "meaning\n");
    for (int g = 0; g < GUARANTEE_COUNT; g++) {
        buf_addf(b, "  %-14s", guarantee_names[g]);
        for (size_t e = 0; e < n; e++)
            add_column(b, &views[e], column_cell, g);
        buf_addf(b, "%s\n", guarantee_meaning[g]);
    }
}

static void add_engines(struct buf *b, const struct doctor_facts *f, bool all) {
    struct doctor_engine views[DOCTOR_ENGINES_MAX];
    size_t n = doctor_engines(f, all, views);

    add_guarantees(b, views, n);
    buf_addc(b, '\n');
    for (size_t e = 0; e < n; e++)
        for (size_t i = 0; i < views[e].n; i++)
            add_rung(b, &views[e], i);
    for (size_t e = 0; e < n; e++)
        add_nested(b, f, &views[e]);
}

void doctor_engines_text(const struct doctor_facts *f, struct buf *out) {
    add_engines(out, f, true);
}

static void add_outcome(struct buf *b, const struct doctor_facts *f, bool colour) {
    static const enum verdict as[OUTCOME_COUNT] = {VERDICT_OK, VERDICT_WARN, VERDICT_MISSING};
    static const char *const text[OUTCOME_COUNT] = {"runs commands in the full sandbox", "runs commands in a weaker sandbox",
                                                    "refuses to run"};
    struct doctor_run run;

    doctor_verdict(f, &run);
    buf_addf(b, "  %s'bawn run' %s%s", paint(as[run.outcome], colour), text[run.outcome], colour ? "\033[0m" : "");
    if (run.outcome != REFUSES)
        buf_addf(b, " (native engine, %s rung)", rung_names[run.rung]);
    if (run.why[0]) {
        buf_adds(b, ": ");
        buf_add_printable(b, run.why);
    }
    buf_addc(b, '\n');
    for (size_t i = 0; i < run.n_announces; i++)
        buf_addf(b, "  it will say: %s\n", run.announces[i]);
    if (run.outcome != RUNS_FULL)
        buf_adds(b, "  what can be done: bawn doctor --fix\n");
}

void doctor_text(const struct doctor_facts *f, bool colour, struct buf *out) {
    manual_heading(out, "Host", colour);
    for (size_t i = 0; i < n_checks; i++)
        add_check(out, &checks[i], f, colour);
    manual_heading(out, "Engines", colour);
    add_engines(out, f, false);
    buf_adds(out, "  'bawn engines' asks docker and podman, too\n");
    manual_heading(out, "Here", colour);
    add_outcome(out, f, colour);
}

static size_t add_fixes(struct buf *out, const struct doctor_facts *f, bool optional, bool colour) {
    size_t n = 0;

    for (size_t i = 0; i < n_fixes; i++) {
        if (fixes[i].optional != optional || !fix_needed(&fixes[i], f))
            continue;
        buf_addf(out, "%s%s# %s%s%s\n", out->len ? "\n" : "", colour ? "\033[1m" : "", fixes[i].title,
                 optional ? " (optional)" : "", colour ? "\033[0m" : "");
        fixes[i].text(f, out);
        n++;
    }
    return n;
}

void doctor_fix_text(const struct doctor_facts *f, bool colour, struct buf *out) {
    struct doctor_run run;

    doctor_verdict(f, &run);
    if (add_fixes(out, f, false, colour) == 0 && run.outcome == RUNS_FULL)
        buf_adds(out, "Nothing is missing: 'bawn run' has the full sandbox, with all limits.\n");
    else if (!out->len) {
        buf_adds(out, "Nothing on the host is to be changed: ");
        buf_add_printable(out, run.why);
        buf_addc(out, '\n');
    }
    add_fixes(out, f, true, colour);
}

/* An empty text is null. */
static void add_maybe(struct jsonout *j, const char *key, const char *value) {
    jsonout_text(j, key, *value ? value : NULL);
}

static void json_host(struct jsonout *j, const struct doctor_facts *f) {
    jsonout_open(j, "host", '{');
    jsonout_u64(j, "uid", f->uid);
    jsonout_text(j, "user", f->user);
    jsonout_text(j, "kernel", f->release);
    add_maybe(j, "distribution", f->distro);
    add_maybe(j, "container", f->native.container == CONTAINER_NO ? "" : container_names[f->native.container]);
    jsonout_text(j, "cgroup", cgroup_kind_name(f->native.cgroup.kind));
    jsonout_int(j, "landlock_abi", f->native.landlock_abi);
    jsonout_close(j, '}');
}

static void json_checks(struct jsonout *j, const struct doctor_facts *f) {
    jsonout_break(j, "\n");
    jsonout_open(j, "checks", '[');
    for (size_t i = 0; i < n_checks; i++) {
        struct doctor_finding r = check_run(&checks[i], f);

        jsonout_break(j, "\n ");
        jsonout_open(j, NULL, '{');
        jsonout_text(j, "id", checks[i].id);
        jsonout_text(j, "name", checks[i].name);
        jsonout_text(j, "how", checks[i].how);
        jsonout_text(j, "value", r.value);
        jsonout_text(j, "verdict", verdict_names[r.verdict]);
        jsonout_text(j, "why", checks[i].why);
        add_maybe(j, "remedy", r.remedy);
        jsonout_close(j, '}');
    }
    jsonout_close(j, ']');
}

static void json_set(struct jsonout *j, const char *key, unsigned set) {
    jsonout_open(j, key, '[');
    for (int g = 0; g < GUARANTEE_COUNT; g++)
        if (set & (1u << g))
            jsonout_text(j, NULL, guarantee_names[g]);
    jsonout_close(j, ']');
}

static void json_nested(struct jsonout *j, const struct doctor_facts *f, const struct engine_ops *ops) {
    struct doctor_nested n;

    doctor_nested(f, ops, &n);
    jsonout_open(j, "nested", '{');
    jsonout_bool(j, "available", n.available);
    add_maybe(j, "why", n.why);
    add_maybe(j, "remedy", n.remedy);
    jsonout_close(j, '}');
}

static void json_engine(struct jsonout *j, const struct doctor_facts *f, const struct doctor_engine *v) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "name", v->ops->name);
    jsonout_text(j, "summary", v->ops->summary);
    jsonout_open(j, "rungs", '[');
    for (size_t i = 0; i < v->n; i++) {
        const struct engine_state *s = &v->states[i];

        jsonout_open(j, NULL, '{');
        jsonout_text(j, "name", v->names[i]);
        jsonout_bool(j, "available", s->available);
        json_set(j, "keeps", s->keeps);
        json_set(j, "lacks", ~s->keeps & (unsigned)ENFORCES_EVERYTHING);
        add_maybe(j, "why", s->why);
        add_maybe(j, "remedy", s->remedy);
        jsonout_close(j, '}');
    }
    jsonout_close(j, ']');
    json_nested(j, f, v->ops);
    jsonout_close(j, '}');
}

static void json_engines(struct jsonout *j, const struct doctor_facts *f, bool all) {
    struct doctor_engine views[DOCTOR_ENGINES_MAX];
    size_t n = doctor_engines(f, all, views);

    jsonout_break(j, "\n");
    jsonout_open(j, "guarantees", '{');
    for (int g = 0; g < GUARANTEE_COUNT; g++)
        jsonout_text(j, guarantee_names[g], guarantee_meaning[g]);
    jsonout_close(j, '}');
    jsonout_break(j, "\n");
    jsonout_open(j, "engines", '[');
    for (size_t i = 0; i < n; i++) {
        jsonout_break(j, "\n ");
        json_engine(j, f, &views[i]);
    }
    jsonout_close(j, ']');
}

static void json_run(struct jsonout *j, const struct doctor_facts *f) {
    struct doctor_run run;

    doctor_verdict(f, &run);
    jsonout_break(j, "\n");
    jsonout_open(j, "run", '{');
    jsonout_text(j, "outcome", doctor_outcome_names[run.outcome]);
    jsonout_int(j, "status", run.status);
    add_maybe(j, "engine", run.outcome == REFUSES ? "" : engine_native.name);
    add_maybe(j, "rung", run.outcome == REFUSES ? "" : rung_names[run.rung]);
    add_maybe(j, "why", run.why);
    jsonout_open(j, "announces", '[');
    for (size_t i = 0; i < run.n_announces; i++)
        jsonout_text(j, NULL, run.announces[i]);
    jsonout_close(j, ']');
    jsonout_close(j, '}');
}

static void json_fixes(struct jsonout *j, const struct doctor_facts *f) {
    jsonout_break(j, "\n");
    jsonout_open(j, "fixes", '[');
    for (size_t i = 0; i < n_fixes; i++) {
        CLEANUP(buf_done) struct buf text = BUF_INIT(64 * 1024);

        if (!fix_needed(&fixes[i], f))
            continue;
        fixes[i].text(f, &text);
        jsonout_break(j, "\n ");
        jsonout_open(j, NULL, '{');
        jsonout_text(j, "id", fixes[i].id);
        jsonout_text(j, "title", fixes[i].title);
        jsonout_bool(j, "optional", fixes[i].optional);
        jsonout_text(j, "text", buf_str(&text));
        jsonout_close(j, '}');
    }
    jsonout_close(j, ']');
}

void doctor_engines_json(const struct doctor_facts *f, struct buf *out) {
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    json_engines(&j, f, true);
    jsonout_close(&j, '}');
    buf_addc(out, '\n');
}

void doctor_json(const struct doctor_facts *f, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "version", BAWN_VERSION);
    jsonout_break(&j, "\n");
    json_host(&j, f);
    json_checks(&j, f);
    json_engines(&j, f, false);
    json_run(&j, f);
    json_fixes(&j, f);
    buf_adds(out, "}\n");
}
