/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people and for programs. Everything is appended to a buffer. */
#include <errno.h>

#include "base/buf.h"
#include "base/str.h"
#include "ops/doctor/doctor.h"

enum { RUNGS_MAX = 4 };

/* One engine as it is on this host. */
struct engine_view {
    const struct engine_ops *ops;
    size_t n;
    struct engine_state states[RUNGS_MAX];
    const char *names[RUNGS_MAX];
};

/* The native engine has been looked at already; a second time would cost another attempt, and might differ. */
static struct engine_view view(const struct doctor_facts *f, const struct engine_ops *ops) {
    struct engine_view v = {.ops = ops};

    if (ops != &engine_native) {
        v.n = ops->probe(v.states, v.names, RUNGS_MAX);
        return v;
    }
    native_judge(&f->native, v.states);
    for (v.n = 0; v.n < RUNG_COUNT; v.n++)
        v.names[v.n] = rung_names[v.n];
    return v;
}

static void heading(struct buf *b, const char *text, bool colour) {
    buf_addf(b, "%s%s%s%s\n", b->len ? "\n" : "", colour ? "\033[1m" : "", text, colour ? "\033[0m" : "");
}

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
    buf_addf(b, "    %-8s", label);
    for (int g = 0; g < GUARANTEE_COUNT; g++)
        if (set & (1u << g))
            buf_addf(b, " %s", guarantee_names[g]);
    buf_adds(b, set ? "\n" : " nothing\n");
}

static void add_rung(struct buf *b, const struct engine_view *v, size_t i) {
    const struct engine_state *s = &v->states[i];

    buf_addf(b, "  %s/%s: %s", v->ops->name, v->names[i], s->available ? "available" : "not available");
    if (s->why[0]) {
        buf_adds(b, "; ");
        buf_add_printable(b, s->why);
    }
    buf_addc(b, '\n');
    if (!s->available)
        return;
    add_set(b, "keeps", s->keeps);
    add_set(b, "lacks", ~s->keeps & ((1u << GUARANTEE_COUNT) - 1));
}

/* What each guarantee means, and which rungs keep it here. */
static void add_guarantees(struct buf *b, const struct engine_view *views, size_t n) {
    buf_addf(b, "  %-11s", "");
    for (size_t e = 0; e < n; e++)
        for (size_t i = 0; i < views[e].n; i++)
            buf_addf(b, "%-10s", views[e].names[i]);
    buf_adds(b, "meaning\n");
    for (int g = 0; g < GUARANTEE_COUNT; g++) {
        buf_addf(b, "  %-11s", guarantee_names[g]);
        for (size_t e = 0; e < n; e++)
            for (size_t i = 0; i < views[e].n; i++)
                buf_addf(b, "%-10s", views[e].states[i].keeps & (1u << g) ? "kept" : "-");
        buf_addf(b, "%s\n", guarantee_meaning[g]);
    }
}

static size_t all_views(const struct doctor_facts *f, struct engine_view *ret, size_t max) {
    size_t n = 0;

    for (size_t i = 0; i < n_engines && n < max; i++)
        if (!engines[i]->for_tests)
            ret[n++] = view(f, engines[i]);
    return n;
}

static void add_engines(struct buf *b, const struct doctor_facts *f) {
    struct engine_view views[16];
    size_t n = all_views(f, views, ARRAY_LEN(views));

    add_guarantees(b, views, n);
    buf_addc(b, '\n');
    for (size_t e = 0; e < n; e++)
        for (size_t i = 0; i < views[e].n; i++)
            add_rung(b, &views[e], i);
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
    heading(out, "Host", colour);
    for (size_t i = 0; i < n_checks; i++)
        add_check(out, &checks[i], f, colour);
    heading(out, "Engines", colour);
    add_engines(out, f);
    heading(out, "Here", colour);
    add_outcome(out, f, colour);
}

static size_t add_fixes(struct buf *out, const struct doctor_facts *f, bool optional, bool colour) {
    size_t n = 0;

    for (size_t i = 0; i < n_fixes; i++) {
        if (fixes[i].optional != optional || !fixes[i].needed(f))
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

static void add_member(struct buf *b, const char *before, const char *key, const char *value) {
    buf_addf(b, "%s\"%s\":", before, key);
    buf_add_json(b, value);
}

/* Like add_member(), but an empty text is null. */
static void add_maybe(struct buf *b, const char *before, const char *key, const char *value) {
    if (*value)
        add_member(b, before, key, value);
    else
        buf_addf(b, "%s\"%s\":null", before, key);
}

static void json_host(struct buf *b, const struct doctor_facts *f) {
    buf_addf(b, "\"host\":{\"uid\":%u", f->uid);
    add_member(b, ",", "user", f->user);
    add_member(b, ",", "kernel", f->release);
    add_maybe(b, ",", "distribution", f->distro);
    add_maybe(b, ",", "container", f->native.container == CONTAINER_NO ? "" : container_names[f->native.container]);
    add_member(b, ",", "cgroup", cgroup_kind_name(f->native.cgroup.kind));
    buf_addf(b, ",\"landlock_abi\":%d}", f->native.landlock_abi);
}

static void json_checks(struct buf *b, const struct doctor_facts *f) {
    buf_adds(b, ",\n\"checks\":[");
    for (size_t i = 0; i < n_checks; i++) {
        struct doctor_finding r = check_run(&checks[i], f);

        add_member(b, i ? ",\n {" : "\n {", "id", checks[i].id);
        add_member(b, ",", "name", checks[i].name);
        add_member(b, ",", "how", checks[i].how);
        add_member(b, ",", "value", r.value);
        add_member(b, ",", "verdict", verdict_names[r.verdict]);
        add_member(b, ",", "why", checks[i].why);
        add_maybe(b, ",", "remedy", r.remedy);
        buf_addc(b, '}');
    }
    buf_addc(b, ']');
}

static void json_set(struct buf *b, const char *key, unsigned set) {
    const char *sep = "";

    buf_addf(b, ",\"%s\":[", key);
    for (int g = 0; g < GUARANTEE_COUNT; g++)
        if (set & (1u << g)) {
            buf_addf(b, "%s\"%s\"", sep, guarantee_names[g]);
            sep = ",";
        }
    buf_addc(b, ']');
}

static void json_engine(struct buf *b, const struct engine_view *v) {
    add_member(b, "{", "name", v->ops->name);
    add_member(b, ",", "summary", v->ops->summary);
    buf_adds(b, ",\"rungs\":[");
    for (size_t i = 0; i < v->n; i++) {
        const struct engine_state *s = &v->states[i];

        add_member(b, i ? ",{" : "{", "name", v->names[i]);
        buf_addf(b, ",\"available\":%s", s->available ? "true" : "false");
        json_set(b, "keeps", s->keeps);
        json_set(b, "lacks", ~s->keeps & ((1u << GUARANTEE_COUNT) - 1));
        add_maybe(b, ",", "why", s->why);
        add_maybe(b, ",", "remedy", s->remedy);
        buf_addc(b, '}');
    }
    buf_adds(b, "]}");
}

static void json_engines(struct buf *b, const struct doctor_facts *f) {
    struct engine_view views[16];
    size_t n = all_views(f, views, ARRAY_LEN(views));

    buf_adds(b, ",\n\"guarantees\":{");
    for (int g = 0; g < GUARANTEE_COUNT; g++)
        add_member(b, g ? "," : "", guarantee_names[g], guarantee_meaning[g]);
    buf_adds(b, "},\n\"engines\":[");
    for (size_t i = 0; i < n; i++) {
        buf_adds(b, i ? ",\n " : "\n ");
        json_engine(b, &views[i]);
    }
    buf_addc(b, ']');
}

static void json_run(struct buf *b, const struct doctor_facts *f) {
    struct doctor_run run;

    doctor_verdict(f, &run);
    add_member(b, ",\n\"run\":{", "outcome", doctor_outcome_names[run.outcome]);
    buf_addf(b, ",\"status\":%d", run.status);
    add_maybe(b, ",", "engine", run.outcome == REFUSES ? "" : engine_native.name);
    add_maybe(b, ",", "rung", run.outcome == REFUSES ? "" : rung_names[run.rung]);
    add_maybe(b, ",", "why", run.why);
    buf_adds(b, ",\"announces\":[");
    for (size_t i = 0; i < run.n_announces; i++) {
        buf_adds(b, i ? "," : "");
        buf_add_json(b, run.announces[i]);
    }
    buf_adds(b, "]}");
}

static void json_fixes(struct buf *b, const struct doctor_facts *f) {
    const char *sep = "\n ";

    buf_adds(b, ",\n\"fixes\":[");
    for (size_t i = 0; i < n_fixes; i++) {
        CLEANUP(buf_done) struct buf text = BUF_INIT(64 * 1024);

        if (!fixes[i].needed(f))
            continue;
        fixes[i].text(f, &text);
        buf_adds(b, sep);
        add_member(b, "{", "id", fixes[i].id);
        add_member(b, ",", "title", fixes[i].title);
        buf_addf(b, ",\"optional\":%s", fixes[i].optional ? "true" : "false");
        add_member(b, ",", "text", buf_str(&text));
        buf_addc(b, '}');
        sep = ",\n ";
    }
    buf_addc(b, ']');
}

void doctor_json(const struct doctor_facts *f, struct buf *out) {
    buf_addf(out, "{\"version\":\"%s\",\n", BAWN_VERSION);
    json_host(out, f);
    json_checks(out, f);
    json_engines(out, f);
    json_run(out, f);
    json_fixes(out, f);
    buf_adds(out, "}\n");
}
