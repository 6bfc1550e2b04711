/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"
#include "review/report/escape.h"
#include "review/report/report.h"

enum { BAR_WIDTH = 40 };

struct totals {
    size_t added, removed;
};

static const char *word_for(const struct change *c, const struct report_delta *d) {
    switch (d->content) {
    case CONTENT_BINARY:
        return "binary";
    case CONTENT_TOO_LARGE:
        return "too large to compare";
    case CONTENT_UNKNOWN:
        return "old version not kept";
    case CONTENT_SAME:
        return c->kind == CHANGE_RENAMED ? "renamed" : c->what & CHANGE_MODE ? "mode" : change_kind_names[c->kind];
    case CONTENT_TEXT:
        return NULL;
    }
    return NULL;
}

static void add_bar(struct report *r, const struct diff_count *n) {
    size_t all = n->added + n->removed, width = MIN_OF(all, (size_t)BAR_WIDTH);
    size_t plus = all ? (n->added * width + all - 1) / all : 0;

    buf_addf(&r->b, "%zu ", all);
    report_colour(r, "32");
    for (size_t i = 0; i < plus; i++)
        buf_addc(&r->b, '+');
    report_colour(r, "31");
    for (size_t i = plus; i < width; i++)
        buf_addc(&r->b, '-');
    report_colour(r, "");
}

static int add_line(struct report *r, const struct change *c, struct totals *t, struct err *err) {
    struct report_delta d;
    int e = report_compare(r, c, NULL, &d, err);

    if (e < 0)
        return e;
    buf_addc(&r->b, ' ');
    if (c->from) {
        escape_git_name(&r->b, "", c->from);
        buf_adds(&r->b, " => ");
    }
    escape_git_name(&r->b, "", c->path);
    buf_adds(&r->b, " | ");
    if (word_for(c, &d))
        buf_adds(&r->b, word_for(c, &d));
    else
        add_bar(r, &d.count);
    buf_addc(&r->b, '\n');
    t->added += d.count.added;
    t->removed += d.count.removed;
    return report_flush(r, false, err);
}

int report_stat(struct report *r, struct err *err) {
    struct totals t = {0};

    for (size_t i = 0; i < r->j->n; i++) {
        int e = add_line(r, r->j->v[i].change, &t, err);

        if (e < 0)
            return e;
    }
    buf_addf(&r->b, " %zu changed, %zu lines added, %zu removed\n", r->j->n, t.added, t.removed);
    return 0;
}
