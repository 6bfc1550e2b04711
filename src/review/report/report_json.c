/* SPDX-License-Identifier: Apache-2.0 */
/* spec/review.schema.json */
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"
#include "review/report/escape.h"
#include "review/report/report.h"

static void add_string(struct buf *b, const char *key, const char *s) {
    buf_addf(b, ", \"%s\": ", key);
    escape_json(b, s, strlen(s));
}

/* A name that is not UTF-8 also comes as its bytes: JSON has no other way to say it. */
static void add_path(struct buf *b, const char *key, const char *path) {
    add_string(b, key, path);
    if (str_is_utf8(path))
        return;
    buf_addf(b, ", \"%s_bytes\": \"", key);
    escape_base64(b, path, strlen(path));
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
    bool any = false;

    buf_adds(b, ", \"what\": [");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (what & names[i].bit) {
            buf_addf(b, "%s\"%s\"", any ? ", " : "", names[i].name);
            any = true;
        }
    buf_addc(b, ']');
}

static void add_side(struct buf *b, const char *key, const struct change_side *s) {
    if (!s->mode) {
        buf_addf(b, ", \"%s\": null", key);
        return;
    }
    buf_addf(b, ", \"%s\": {\"type\": \"%s\", \"mode\": \"%04o\", \"size\": %llu", key, report_type(s->mode), s->mode & 07777,
             (unsigned long long)s->size);
    if (s->link)
        add_path(b, "link", s->link);
    buf_addc(b, '}');
}

static void add_flag(struct buf *b, const char *key, bool value) {
    buf_addf(b, ", \"%s\": %s", key, value ? "true" : "false");
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
            add_path(b, "path", k->path);
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
    int e = 0;

    buf_addf(b, "{\"kind\": \"%s\"", change_kind_names[c->kind]);
    add_path(b, "path", c->path);
    if (c->from)
        add_path(b, "from", c->from);
    add_what(b, c->what);
    add_side(b, "old", &c->old_);
    add_side(b, "new", &c->new_);
    add_flag(b, "hidden", c->hidden);
    add_flag(b, "git_ignored", c->git_ignored);
    add_flag(b, "host_changed", c->host_changed);
    add_flag(b, "old_unknown", c->old_unknown);
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
    add_path(b, "workspace", r->q->workspace);
    buf_addf(b, ", \"summary\": {\"changes\": %zu", r->j->n);
    for (int level = RISK_HIGH; level >= RISK_NONE; level--)
        buf_addf(b, ", \"%s\": %zu", risk_level_names[level], r->j->count[level]);
    buf_adds(b, "}, \"notes\": [");
    for (size_t i = 0; i < r->j->set.notes.len; i++) {
        buf_adds(b, i ? ", " : "");
        escape_json(b, r->j->set.notes.v[i], strlen(r->j->set.notes.v[i]));
    }
    buf_adds(b, "], \"changes\": [");
}

int report_json(struct report *r, struct err *err) {
    add_head(r);
    for (size_t i = 0; i < r->j->n; i++) {
        int e;

        buf_adds(&r->b, i ? ",\n  " : "\n  ");
        e = add_change(r, &r->j->v[i], err);
        if (e < 0)
            return e;
    }
    buf_adds(&r->b, "]}\n");
    return 0;
}
