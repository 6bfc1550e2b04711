/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of dependencies and of git's objects: one entry each, in text, JSON and SARIF. */
#include "base/jsonout.h"
#include "base/parse.h"
#include "base/str.h"
#include "review/report/escape.h"
#include "review/report/report.h"

enum {
    NAMES_SHOWN = 5, /* of packages, scripts, links */
    FOLDS_SHOWN = 8, /* whole entries; of more folders a line each */
};

/* How a package changed. */
enum package_change { PACKAGE_ADDED, PACKAGE_CHANGED, PACKAGE_REMOVED, PACKAGE_CHANGES };
static const char *const package_words[PACKAGE_CHANGES] = {"added", "changed", "removed"};

static enum package_change package_change(const struct fold_package *p) {
    return !p->was ? PACKAGE_ADDED : !p->is ? PACKAGE_REMOVED : PACKAGE_CHANGED;
}

static size_t count_packages(const struct fold *f, enum package_change what) {
    size_t n = 0;

    for (size_t i = 0; i < f->n_packages; i++)
        n += package_change(&f->packages[i]) == what;
    return n;
}

bool report_lists(const struct report *r, const struct verdict *v) {
    return !v->fold || r->q->all || r->q->paths.len;
}

/* -- for people ----------------------------------------------------------------------------------------------------------- */

/* "       head: a, b, c and 12 more" */
struct fold_line {
    struct buf *b;
    size_t shown, all, max;
};

static void line_begin(struct fold_line *l, const char *head) {
    buf_addf(l->b, "       %s: ", head);
}

static bool line_next(struct fold_line *l) {
    if (l->all++ >= l->max)
        return false;
    buf_adds(l->b, l->shown++ ? ", " : "");
    return true;
}

static void line_end(struct fold_line *l) {
    if (l->all > l->shown)
        buf_addf(l->b, " and %zu more", l->all - l->shown);
    buf_addc(l->b, '\n');
}

static void add_packages(struct report *r, const struct fold *f, enum package_change what) {
    struct fold_line l = {.b = &r->b, .max = NAMES_SHOWN};

    if (count_packages(f, what) == 0)
        return;
    line_begin(&l, package_words[what]);
    for (size_t i = 0; i < f->n_packages; i++) {
        const struct fold_package *p = &f->packages[i];

        if (package_change(p) != what || !line_next(&l))
            continue;
        escape_text(l.b, p->name);
        buf_addc(l.b, ' ');
        escape_text(l.b, p->was ? p->was : p->is);
        if (what == PACKAGE_CHANGED) {
            buf_adds(l.b, " -> ");
            escape_text(l.b, p->is);
        }
    }
    line_end(&l);
}

static void add_lock(struct report *r, const struct fold *f) {
    static const char *const words[] = {
        [FOLD_LOCK_NONE] = "there is none, so nothing says what should be here",
        [FOLD_LOCK_AGREES] = " agrees with names, versions and recorded hashes; content is not compared",
        [FOLD_LOCK_PARTLY] = " agrees, and does not name all packages",
        [FOLD_LOCK_DIFFERS] = " DIFFERS",
        [FOLD_LOCK_UNREAD] = " cannot be read",
    };
    if (!f->kind->locks || (!f->n_packages && f->lock.state != FOLD_LOCK_DIFFERS))
        return;
    buf_adds(&r->b, "       lockfile: ");
    escape_text(&r->b, f->lock.path ? f->lock.path : "");
    buf_adds(&r->b, words[f->lock.state]);
    if (f->lock.state == FOLD_LOCK_PARTLY)
        buf_addf(&r->b, " (%zu missing)", f->lock.unlocked);
    if (f->lock.state == FOLD_LOCK_DIFFERS)
        buf_addf(&r->b, " in %zu %s", f->lock.differences.len, f->lock.differences.len == 1 ? "place" : "places");
    buf_adds(&r->b, f->lock.changed ? "; this run changed it, too\n" : "\n");
}

static void add_scripts(struct report *r, const struct fold *f) {
    struct fold_line l = {.b = &r->b, .max = 2 * NAMES_SHOWN};

    for (size_t i = 0; i < f->n_packages; i++) {
        const struct fold_package *p = &f->packages[i];

        if (!p->scripts)
            continue;
        if (l.all == 0)
            line_begin(&l, "install scripts");
        if (!line_next(&l))
            continue;
        escape_text(l.b, p->name);
        buf_adds(l.b, " (");
        escape_text(l.b, p->scripts);
        buf_addc(l.b, ')');
    }
    if (l.all)
        line_end(&l);
}

static void add_names(struct report *r, const char *head, const struct strv *names) {
    struct fold_line l = {.b = &r->b, .max = NAMES_SHOWN};

    if (names->len == 0)
        return;
    line_begin(&l, head);
    for (size_t i = 0; i < names->len; i++)
        if (line_next(&l))
            escape_text(l.b, names->v[i]);
    line_end(&l);
}

/* "git-hook: node_modules/a/.git/hooks/x: git runs this hook" */
static void add_class(struct report *r, const struct fold_class *k, enum risk_class class) {
    for (size_t i = 0; i < k->n_shown; i++) {
        buf_addf(&r->b, "         %s: ", risk_classes[class].name);
        escape_text(&r->b, k->shown[i].path);
        buf_adds(&r->b, ": ");
        escape_text(&r->b, k->shown[i].reason);
        buf_addc(&r->b, '\n');
    }
    if (k->count > k->n_shown)
        buf_addf(&r->b, "         %s: %zu more\n", risk_classes[class].name, k->count - k->n_shown);
}

static void add_high(struct report *r, const struct fold *f) {
    if (f->unusual) {
        buf_adds(&r->b, "       ");
        report_colour(r, "1;31");
        buf_addf(&r->b, "high, and not usual after an install: %zu\n", f->unusual);
        report_colour(r, "");
    }
    for (int class = 0; class < RISK_CLASSES; class ++)
        if (f->classes[class][RISK_HIGH].unusual)
            add_class(r, &f->classes[class][RISK_HIGH], (enum risk_class) class);
}

/* "       high: package-script 300, executable 45" */
static void add_level(struct report *r, const struct fold *f, enum risk_level level) {
    struct fold_line l = {.b = &r->b, .max = RISK_CLASSES};

    for (int class = 0; class < RISK_CLASSES; class ++) {
        const struct fold_class *k = &f->classes[class][level];

        if (k->count == 0 || k->unusual)
            continue;
        if (l.all == 0)
            line_begin(&l, level == RISK_HIGH ? "high, and usual after an install" : risk_level_names[level]);
        if (line_next(&l))
            buf_addf(l.b, "%s %zu", risk_classes[class].name, k->count);
    }
    if (l.all)
        line_end(&l);
}

static void add_head(struct report *r, const struct fold *f) {
    char size[24];

    buf_adds(&r->b, "  ");
    report_colour(r, "1");
    escape_text(&r->b, f->path);
    buf_addc(&r->b, '/');
    report_colour(r, "");
    buf_addf(&r->b, "  (%s, %zu %s, %s", f->kind->what, f->changes, str_plural(f->changes, "change", "changes"),
             (format_size(f->bytes, size), size));
    for (int i = 0; i < PACKAGE_CHANGES; i++)
        if (count_packages(f, (enum package_change)i))
            buf_addf(&r->b, ", %zu %s", count_packages(f, (enum package_change)i), package_words[i]);
    if (f->binaries)
        buf_addf(&r->b, ", %zu %s", f->binaries, f->binaries == 1 ? "binary" : "binaries");
    if (f->commands)
        buf_addf(&r->b, ", %zu %s", f->commands, f->commands == 1 ? "command" : "commands");
    buf_adds(&r->b, ")\n");
}

static void add_fold(struct report *r, const struct fold *f, bool whole) {
    add_head(r, f);
    add_high(r, f);
    add_lock(r, f);
    if (!whole)
        return;
    for (int i = 0; i < PACKAGE_CHANGES; i++)
        add_packages(r, f, (enum package_change)i);
    add_scripts(r, f);
    add_names(r, "links out of the folder", &f->links);
    add_names(r, "python runs at every start", &f->starts);
    for (int level = RISK_HIGH; level > RISK_LOW; level--)
        add_level(r, f, (enum risk_level)level);
}

/* Those with something unusual come first, so that none of them is among the shortened. */
void report_folds(struct report *r) {
    size_t shown = 0;

    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < r->j->folds.n; i++) {
            const struct fold *f = &r->j->folds.v[i];

            if (!f->changes || (f->unusual > 0) == pass)
                continue;
            if (shown++ == 0 && !r->q->block) {
                buf_adds(&r->b, r->j->n > r->j->folded ? "\n" : "");
                report_colour(r, "1");
                buf_adds(&r->b, "Dependencies, build output and git objects");
                report_colour(r, "");
                buf_addc(&r->b, '\n');
            }
            add_fold(r, f, shown <= FOLDS_SHOWN);
        }
}

void report_folds_summary(struct report *r) {
    size_t unusual = 0, high = 0, n = 0;

    for (size_t i = 0; i < r->j->folds.n; i++) {
        const struct fold *f = &r->j->folds.v[i];

        n += f->changes > 0;
        unusual += f->unusual;
        high += f->count[RISK_HIGH];
    }
    if (r->j->folded == 0)
        return;
    buf_addf(&r->b, "%zu of these are in %zu %s (%zu high, %zu of them not usual there)", r->j->folded, n,
             n == 1 ? "folder that is shown as a whole" : "folders that are shown as a whole", high, unusual);
    if (r->q->all)
        buf_adds(&r->b, ".\n");
    else
        buf_addf(&r->b, "; one by one: bawn review %s --all\n", r->q->run);
}

/* -- for programs ---------------------------------------------------------------------------------------------------------- */

static void add_json_text(struct buf *b, const char *key, const char *s) {
    jsonout_key(&(struct jsonout){b}, key);
    escape_json(b, s, strlen(s));
}

static void add_json_list(struct buf *b, const char *key, const struct strv *v) {
    jsonout_open(&(struct jsonout){b}, key, '[');
    for (size_t i = 0; i < v->len; i++)
        add_json_text(b, NULL, v->v[i]);
    buf_addc(b, ']');
}

static void add_json_packages(struct buf *b, const struct fold *f) {
    struct jsonout j = {b};

    jsonout_open(&j, "packages", '[');
    for (size_t i = 0; i < f->n_packages; i++) {
        const struct fold_package *p = &f->packages[i];

        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "kind", package_words[package_change(p)]);
        add_json_text(b, "name", p->name);
        add_json_text(b, "path", p->root);
        if (p->was)
            add_json_text(b, "old", p->was);
        if (p->is)
            add_json_text(b, "new", p->is);
        if (p->scripts)
            add_json_text(b, "install_scripts", p->scripts);
        jsonout_close(&j, '}');
    }
    jsonout_close(&j, ']');
}

static void add_json_lock(struct buf *b, const struct fold *f) {
    struct jsonout j = {b};

    if (!f->kind->locks)
        return;
    jsonout_open(&j, "lockfile", '{');
    jsonout_text(&j, "state", fold_lock_names[f->lock.state]);
    if (f->lock.path) {
        add_json_text(b, "path", f->lock.path);
        jsonout_bool(&j, "changed", f->lock.changed);
    }
    add_json_list(b, "differences", &f->lock.differences);
    jsonout_close(&j, '}');
}

static void add_json_risks(struct buf *b, const struct fold *f) {
    struct jsonout j = {b};

    jsonout_open(&j, "risks", '[');
    for (int level = RISK_HIGH; level > RISK_NONE; level--)
        for (int class = 0; class < RISK_CLASSES; class ++) {
            const struct fold_class *k = &f->classes[class][level];

            if (k->count == 0)
                continue;
            jsonout_open(&j, NULL, '{');
            jsonout_text(&j, "class", risk_classes[class].name);
            jsonout_text(&j, "level", risk_level_names[level]);
            jsonout_int(&j, "count", (long long)k->count);
            jsonout_bool(&j, "unusual", k->unusual);
            jsonout_open(&j, "paths", '[');
            for (size_t i = 0; i < k->n_shown; i++)
                add_json_text(b, NULL, k->shown[i].path);
            jsonout_close(&j, ']');
            jsonout_close(&j, '}');
        }
    jsonout_close(&j, ']');
}

static void add_json_fold(struct buf *b, const struct fold *f) {
    struct jsonout j = {b};

    jsonout_break(&j, "\n  ");
    jsonout_open(&j, NULL, '{');
    add_json_text(b, "path", f->path);
    jsonout_text(&j, "kind", f->kind->name);
    jsonout_text(&j, "reason", f->kind->reason);
    jsonout_int(&j, "changes", (long long)f->changes);
    for (int level = RISK_HIGH; level >= RISK_NONE; level--)
        jsonout_int(&j, risk_level_names[level], (long long)f->count[level]);
    jsonout_int(&j, "unusual", (long long)f->unusual);
    jsonout_int(&j, "bytes", (long long)f->bytes);
    jsonout_int(&j, "binaries", (long long)f->binaries);
    jsonout_int(&j, "commands", (long long)f->commands);
    add_json_lock(b, f);
    add_json_packages(b, f);
    add_json_list(b, "links_out", &f->links);
    add_json_list(b, "starts", &f->starts);
    add_json_risks(b, f);
    jsonout_close(&j, '}');
}

void report_folds_json(struct report *r) {
    struct jsonout j = {&r->b};

    jsonout_open(&j, "folders", '[');
    for (size_t i = 0; i < r->j->folds.n; i++)
        if (r->j->folds.v[i].changes)
            add_json_fold(&r->b, &r->j->folds.v[i]);
    jsonout_close(&j, ']');
}
