/* SPDX-License-Identifier: Apache-2.0 */
/* SARIF 2.1.0 (OASIS): what code scanners of forges and editors read. One rule per class, one result per risk. */
#include "base/err.h"
#include "review/report/escape.h"
#include "review/report/report.h"

static const char *const levels[RISK_LEVELS] = {
    [RISK_NONE] = "none", [RISK_LOW] = "note", [RISK_MEDIUM] = "warning", [RISK_HIGH] = "error"};

static void add_text(struct buf *b, const char *key, const char *text) {
    buf_addf(b, ", \"%s\": {\"text\": ", key);
    escape_json(b, text, strlen(text));
    buf_addc(b, '}');
}

static void add_rules(struct buf *b) {
    for (size_t i = 0; i < RISK_CLASSES; i++) {
        buf_addf(b, "%s{\"id\": \"%s\"", i ? ",\n    " : "\n    ", risk_classes[i].name);
        add_text(b, "shortDescription", risk_classes[i].title);
        add_text(b, "help", risk_classes[i].help);
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
    add_text(b, "message", k->reason);
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

        for (size_t k = 0; k < v->risks.n; k++) {
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
