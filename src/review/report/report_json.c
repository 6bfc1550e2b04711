/* SPDX-License-Identifier: Apache-2.0 */
/* spec/review.schema.json */
#include <sys/stat.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "review/report/escape.h"
#include "review/report/report.h"

static void add_string(struct buf *b, const char *key, const char *s) {
    jsonout_key(&(struct jsonout){b}, key);
    escape_json(b, s, strlen(s));
}

/* A name that is not UTF-8 also comes as its bytes: JSON has no other way to say it. */
static void add_path_member(struct buf *b, const char *key, const char *path) {
    add_string(b, key, path);
    if (str_is_utf8(path))
        return;
    buf_addf(b, ", \"%s_bytes\": \"", key);
    base64_add(b, path, strlen(path));
    buf_addc(b, '"');
}

static void add_what(struct buf *b, unsigned what) {
    static const struct {
        unsigned bit;
        const char *name;
    } names[] = {{CHANGE_CONTENT, "content"},
                 {CHANGE_MODE, "mode"},
                 {CHANGE_LINK, "link"},
                 {CHANGE_TYPE, "type"},
                 {CHANGE_XATTR, "xattr"}};
    struct jsonout j = {b};

    jsonout_open(&j, "what", '[');
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (what & names[i].bit)
            jsonout_text(&j, NULL, names[i].name);
    jsonout_close(&j, ']');
}

static void add_side(struct buf *b, const char *key, const struct change_side *s) {
    if (!s->mode) {
        buf_addf(b, ", \"%s\": null", key);
        return;
    }
    buf_addf(b, ", \"%s\": {\"type\": \"%s\", \"mode\": \"%04o\", \"size\": %llu", key, report_type(s->mode), s->mode & 07777,
             (unsigned long long)s->size);
    if (s->link)
        add_path_member(b, "link", s->link);
    buf_addc(b, '}');
}

static void add_risks(struct buf *b, const struct risk_list *l) {
    buf_adds(b, ", \"risks\": [");
    for (size_t i = 0; i < l->n; i++) {
        const struct risk *k = &l->v[i];

        buf_addf(b, "%s{\"class\": \"%s\", \"level\": \"%s\"", i ? ", " : "", risk_classes[k->class].name,
                 risk_level_names[k->level]);
        if (k->line)
            buf_addf(b, ", \"line\": %u", k->line);
        if (k->path) {
            buf_addf(b, ", \"where\": {\"kind\": \"%s\"", k->id ? "commit" : "index");
            if (k->id)
                add_string(b, "id", k->id);
            add_path_member(b, "path", k->path);
            buf_addc(b, '}');
        }
        add_string(b, "reason", k->reason);
        buf_addc(b, '}');
    }
    buf_addc(b, ']');
}

/* The patch is the one that `bawn diff` prints, with its escapes. */
static int add_diff(struct report *r, const struct change *c, struct err *err) {
    static const char *const names[] = {[CONTENT_TEXT] = "text",
                                        [CONTENT_BINARY] = "binary",
                                        [CONTENT_TOO_LARGE] = "too-large",
                                        [CONTENT_UNKNOWN] = "unknown",
                                        [CONTENT_SAME] = "same"};
    struct report part = {.q = r->q, .j = r->j, .b = BUF_INIT(REPORT_HELD_MAX), .fd = -1, .bytes = r->bytes, .lines = r->lines};
    struct report_delta d;
    int e = report_section(&part, c, &d, err);

    if (e == 0) {
        buf_addf(&r->b, ", \"diff\": {\"content\": \"%s\", \"added\": %zu, \"removed\": %zu", names[d.content], d.count.added,
                 d.count.removed);
        if (d.why[0])
            add_string(&r->b, "why", d.why);
        buf_adds(&r->b, ", \"patch\": ");
        escape_json(&r->b, buf_str(&part.b), part.b.len);
        buf_addc(&r->b, '}');
        r->bytes = part.bytes;
        r->lines = part.lines;
    }
    report_done(&part);
    return e;
}

static int add_change(struct report *r, const struct verdict *v, struct err *err) {
    const struct change *c = v->change;
    struct buf *b = &r->b;
    struct jsonout j = {b};
    int e = 0;

    buf_addf(b, "{\"kind\": \"%s\"", change_kind_names[c->kind]);
    add_path_member(b, "path", c->path);
    if (c->from)
        add_path_member(b, "from", c->from);
    add_what(b, c->what);
    add_side(b, "old", &c->old_);
    add_side(b, "new", &c->new_);
    jsonout_bool(&j, "hidden", c->hidden);
    jsonout_bool(&j, "git_ignored", c->git_ignored);
    jsonout_bool(&j, "host_changed", c->host_changed);
    jsonout_bool(&j, "old_unknown", c->old_unknown);
    add_string(b, "level", risk_level_names[v->level]);
    add_risks(b, &v->risks);
    if (r->q->diff)
        e = add_diff(r, c, err);
    buf_addc(b, '}');
    return e < 0 ? e : report_flush(r, false, err);
}

static void add_head(struct report *r) {
    struct buf *b = &r->b;

    buf_adds(b, "{\"version\": 1");
    add_string(b, "run", r->q->run);
    add_string(b, "mode", workspace_mode_names[r->q->mode]);
    add_path_member(b, "workspace", r->q->workspace);
    buf_addf(b, ", \"summary\": {\"changes\": %zu", r->j->n);
    for (int level = RISK_HIGH; level >= RISK_NONE; level--)
        buf_addf(b, ", \"%s\": %zu", risk_level_names[level], r->j->count[level]);
    jsonout_u64(&(struct jsonout){b}, "folded", r->j->folded);
    buf_adds(b, "}, \"notes\": [");
    for (size_t i = 0; i < r->j->set.notes.len; i++)
        add_string(b, NULL, r->j->set.notes.v[i]);
    buf_addc(b, ']');
    report_folds_json(r);
    buf_adds(b, ", \"changes\": [");
}

int report_json(struct report *r, struct err *err) {
    bool any = false;

    add_head(r);
    for (size_t i = 0; i < r->j->n; i++) {
        int e;

        if (!report_lists(r, &r->j->v[i]))
            continue;
        buf_adds(&r->b, any ? ",\n  " : "\n  ");
        any = true;
        e = add_change(r, &r->j->v[i], err);
        if (e < 0)
            return e;
    }
    buf_adds(&r->b, "]}\n");
    return 0;
}

/* -- SARIF ---------------------------------------------------------------------------------------------------------------- */

/* SARIF 2.1.0 (OASIS): what code scanners of forges and editors read. One rule per class, one result per risk. */

static const char *const levels[RISK_LEVELS] = {
    [RISK_NONE] = "none", [RISK_LOW] = "note", [RISK_MEDIUM] = "warning", [RISK_HIGH] = "error"};

static void add_message(struct buf *b, const char *key, const char *text) {
    buf_addf(b, ", \"%s\": {\"text\": ", key);
    escape_json(b, text, strlen(text));
    buf_addc(b, '}');
}

static void add_rules(struct buf *b) {
    for (size_t i = 0; i < RISK_CLASSES; i++) {
        buf_addf(b, "%s{\"id\": \"%s\"", i ? ",\n    " : "\n    ", risk_classes[i].name);
        add_message(b, "shortDescription", risk_classes[i].title);
        add_message(b, "help", risk_classes[i].help);
        buf_addc(b, '}');
    }
}

static void add_uri(struct buf *b, const char *lead, const char *path, const char *tail) {
    buf_adds(b, lead);
    escape_uri(b, path);
    buf_adds(b, tail);
}

/* "0123...:path", as git itself names it; ":path" is the index. */
static void add_where(struct buf *b, const struct risk *k) {
    CLEANUP(buf_done) struct buf name = BUF_INIT(64 * 1024);

    buf_addf(&name, "%s:%s", k->id ? k->id : "", k->path);
    escape_json(b, buf_str(&name), name.len);
}

static void add_result(struct buf *b, const struct change *c, const struct risk *k) {
    buf_addf(b, "{\"ruleId\": \"%s\", \"ruleIndex\": %d, \"level\": \"%s\"", risk_classes[k->class].name, (int)k->class,
             levels[k->level]);
    add_message(b, "message", k->reason);
    add_uri(b, ", \"locations\": [{\"physicalLocation\": {\"artifactLocation\": {\"uri\": \"", c->path,
            "\", \"uriBaseId\": \"WORKSPACE\"}");
    if (k->line && !k->path)
        buf_addf(b, ", \"region\": {\"startLine\": %u}", k->line);
    buf_addc(b, '}');
    if (k->path) { /* the file of git's that brings it is the place; where it is in there has no line of its own */
        buf_adds(b, ", \"logicalLocations\": [{\"fullyQualifiedName\": ");
        add_where(b, k);
        buf_adds(b, "}]");
    }
    buf_addf(b, "}], \"properties\": {\"kind\": \"%s\", \"risk\": \"%s\"}}", change_kind_names[c->kind],
             risk_level_names[k->level]);
}

static int add_results(struct report *r, struct err *err) {
    bool any = false;

    for (size_t i = 0; i < r->j->n; i++) {
        const struct verdict *v = &r->j->v[i];
        int e;

        for (size_t k = 0; k < v->risks.n && (v->unusual || report_lists(r, v)); k++) {
            buf_adds(&r->b, any ? ",\n    " : "\n    ");
            add_result(&r->b, v->change, &v->risks.v[k]);
            any = true;
        }
        e = report_flush(r, false, err);
        if (e < 0)
            return e;
    }
    return 0;
}

int report_sarif(struct report *r, struct err *err) {
    struct buf *b = &r->b;
    int e;

    buf_adds(b, "{\"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\", \"version\": \"2.1.0\", \"runs\": [{\n"
                "  \"tool\": {\"driver\": {\"name\": \"bawn\", \"version\": \"" BAWN_VERSION "\", \"rules\": [");
    add_rules(b);
    add_uri(b, "]}},\n  \"columnKind\": \"utf16CodeUnits\",\n  \"originalUriBaseIds\": {\"WORKSPACE\": {\"uri\": \"file://",
            r->q->workspace, "/\"}},\n");
    buf_adds(b, "  \"automationDetails\": {\"id\": ");
    buf_addf(b, "\"bawn/%s\"},\n  \"results\": [", r->q->run);
    e = add_results(r, err);
    if (e < 0)
        return e;
    buf_adds(b, "]}]}\n");
    return 0;
}
