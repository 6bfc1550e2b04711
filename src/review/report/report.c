/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a report in the format that was asked for. */
#include "review/report/report.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/report/escape.h"

void report_done(struct report *r) {
    buf_done(&r->b);
}

int report_flush(struct report *r, bool all, struct err *err) {
    int e;

    if (!buf_ok(&r->b))
        return err_set(err, -EFBIG, "the report does not fit into memory");
    if (r->fd < 0 || (!all && r->b.len < REPORT_FLUSH))
        return 0;
    e = fd_write_all(r->fd, buf_str(&r->b), r->b.len);
    if (e < 0)
        return err_sys(err, e, "write the report");
    buf_clear(&r->b);
    return 0;
}

void report_colour(struct report *r, const char *sgr) {
    if (r->q->colour)
        buf_addf(&r->b, "\033[%sm", sgr);
}

const char *report_type(mode_t mode) {
    static const struct {
        mode_t type;
        const char *name;
    } names[] = {{S_IFREG, "file"},         {S_IFLNK, "link"}, {S_IFDIR, "folder"}, {S_IFCHR, "character device"},
                 {S_IFBLK, "block device"}, {S_IFIFO, "fifo"}, {S_IFSOCK, "socket"}};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if ((mode & S_IFMT) == names[i].type)
            return names[i].name;
    return "nothing";
}

static void add_pair(struct buf *b, const char *key, const char *value) {
    buf_add(b, key, strlen(key) + 1);
    buf_add(b, value, strlen(value) + 1);
}

static int report_paths(struct report *r, struct err *err) {
    const struct verdict **order = judge_by_risk(r->j, false);

    if (!order)
        return err_oom(err);
    for (size_t i = 0; i < r->j->n; i++) {
        const char *folder = order[i]->fold ? order[i]->fold->path : "";

        add_pair(&r->b, risk_level_names[order[i]->level], order[i]->change->path);
        if (order[i]->fold)
            buf_adds(&r->b, order[i]->unusual ? "!" : order[i]->fold->kind->strict ? "=" : "");
        buf_add(&r->b, folder, strlen(folder) + 1);
    }
    free(order);
    return 0;
}

static int report_git(struct report *r, struct err *err) {
    for (size_t i = 0; i < r->j->git.hold.len; i++)
        add_pair(&r->b, "hold", r->j->git.hold.v[i]);
    for (size_t i = 0; i < r->j->n; i++)
        for (size_t k = 0; k < r->j->v[i].risks.n; k++) {
            const struct risk *risk = &r->j->v[i].risks.v[k];
            const char *path = r->j->v[i].change->path;
            CLEANUP(buf_done) struct buf line = BUF_INIT(REPORT_HELD_MAX);

            if (risk->level < RISK_HIGH || !(r->j->v[i].git || str_starts(path, ".git/") || strstr(path, "/.git/")))
                continue;
            if (!risk->path) {
                escape_text(&line, path);
                buf_adds(&line, ": ");
            }
            escape_text(&line, risk->reason);
            add_pair(&r->b, "high", buf_str(&line));
        }
    add_pair(&r->b, "end", "");
    return 0;
}

static int report_names(struct report *r, struct err *err) {
    for (size_t i = 0; i < r->j->n; i++) {
        int e;

        escape_git_name(&r->b, "", r->j->v[i].change->path);
        buf_addc(&r->b, '\n');
        e = report_flush(r, false, err);
        if (e < 0)
            return e;
    }
    return 0;
}

int report_write(struct report *r, struct err *err) {
    static int (*const writers[])(struct report * r, struct err * err) = {
        [REQUEST_TEXT] = report_text,   [REQUEST_JSON] = report_json, [REQUEST_SARIF] = report_sarif,
        [REQUEST_PATCH] = report_patch, [REQUEST_STAT] = report_stat, [REQUEST_NAMES] = report_names,
        [REQUEST_PATHS] = report_paths, [REQUEST_GIT] = report_git,
    };
    static_assert(ARRAY_LEN(writers) == REQUEST_FORMATS, "one writer per format");
    int e = writers[r->q->format](r, err);

    return e < 0 ? e : report_flush(r, true, err);
}

/* -- for people ----------------------------------------------------------------------------------------------------------- */

/* The review for people: the riskiest first, one block per file, at the end what to do now. */

static const struct {
    const char *title, *sgr;
} headings[RISK_LEVELS] = {
    [RISK_HIGH] = {"High risk", "1;31"},
    [RISK_MEDIUM] = {"Medium risk", "1;33"},
    [RISK_LOW] = {"Low risk", "1;36"},
    [RISK_NONE] = {"No risk found", "1"},
};

static const char letters[CHANGE_KINDS] = {
    [CHANGE_ADDED] = 'A', [CHANGE_MODIFIED] = 'M', [CHANGE_DELETED] = 'D', [CHANGE_RENAMED] = 'R'};

/* Words after the path, separated by ", ". */
struct words {
    struct buf *b;
    bool any;
};

static struct buf *next_clause(struct words *w) {
    buf_adds(w->b, w->any ? ", " : "  (");
    w->any = true;
    return w->b;
}

static void add_size(struct words *w, const struct change *c) {
    char old_[24], new_[24];

    format_size(c->old_.size, old_);
    format_size(c->new_.size, new_);
    if (c->kind == CHANGE_ADDED)
        buf_adds(next_clause(w), new_);
    else if (c->what & CHANGE_CONTENT && c->kind != CHANGE_DELETED && c->old_.size != c->new_.size)
        buf_addf(next_clause(w), "%s, was %s", new_, old_);
    else if (c->what & CHANGE_CONTENT && c->kind != CHANGE_DELETED)
        buf_addf(next_clause(w), "%s, the size is the same", new_);
}

static void add_links(struct words *w, const struct change *c) {
    if (c->new_.link) {
        buf_adds(next_clause(w), "leads to ");
        escape_text(w->b, c->new_.link);
    }
    if (c->old_.link && c->new_.mode) {
        buf_adds(next_clause(w), "led to ");
        escape_text(w->b, c->old_.link);
    }
}

static void add_what(struct report *r, const struct change *c) {
    mode_t mode = c->new_.mode ? c->new_.mode : c->old_.mode;
    struct words w = {.b = &r->b};

    if (c->from) {
        buf_adds(next_clause(&w), "was ");
        escape_text(w.b, c->from);
    }
    if (c->what & CHANGE_TYPE && c->old_.mode && c->new_.mode)
        buf_addf(next_clause(&w), "%s, was a %s", report_type(c->new_.mode), report_type(c->old_.mode));
    else if (!S_ISREG(mode))
        buf_adds(next_clause(&w), report_type(mode));
    if (S_ISREG(mode))
        add_size(&w, c);
    add_links(&w, c);
    if (c->what & CHANGE_MODE && c->old_.mode && c->new_.mode)
        buf_addf(next_clause(&w), "mode %04o, was %04o", c->new_.mode & 07777, c->old_.mode & 07777);
    if (c->kind == CHANGE_ADDED && S_ISREG(mode) && mode & 0111)
        buf_adds(next_clause(&w), "executable");
    if (c->what & CHANGE_XATTR)
        buf_adds(next_clause(&w), "extended attributes");
    if (c->host_changed)
        buf_adds(next_clause(&w), "changed in the workspace, too");
    if (c->hidden)
        buf_adds(next_clause(&w), "hidden by .sandboxignore: stays in the run");
    if (c->git_ignored)
        buf_adds(next_clause(&w), "ignored by git");
    buf_adds(w.b, w.any ? ")\n" : "\n");
}

static void add_risk(struct report *r, const struct risk *risk) {
    buf_adds(&r->b, "       ");
    report_colour(r, headings[risk->level].sgr);
    buf_adds(&r->b, risk_classes[risk->class].name);
    report_colour(r, "");
    buf_adds(&r->b, ": ");
    escape_text(&r->b, risk->reason);
    if (risk->line)
        buf_addf(&r->b, " (line %u)", risk->line);
    buf_addc(&r->b, '\n');
}

static int add_block(struct report *r, const struct verdict *v, struct err *err) {
    struct report_delta d;
    int e;

    buf_addf(&r->b, "  %c  ", letters[v->change->kind]);
    report_colour(r, "1");
    escape_text(&r->b, v->change->path);
    report_colour(r, "");
    add_what(r, v->change);
    for (size_t i = 0; i < v->risks.n; i++)
        add_risk(r, &v->risks.v[i]);
    if (r->q->diff) {
        e = report_section(r, v->change, &d, err);
        if (e < 0)
            return e;
        buf_addc(&r->b, '\n');
    }
    return report_flush(r, false, err);
}

static void add_next(struct report *r) {
    if (r->q->mode == WORKSPACE_DIRECT)
        buf_addf(&r->b, "The changes are in the workspace. Take them back with: bawn rollback %s\n", r->q->run);
    else
        buf_addf(&r->b, "Apply with: bawn apply %s    Discard with: bawn discard %s\n", r->q->run, r->q->run);
}

static void add_summary(struct report *r) {
    const struct judgement *j = r->j;

    for (size_t i = 0; i < j->set.notes.len; i++) {
        buf_adds(&r->b, "Note: ");
        escape_text(&r->b, j->set.notes.v[i]);
        buf_addc(&r->b, '\n');
    }
    if (j->left_out)
        buf_addf(&r->b, "%zu other %s not asked for.\n", j->left_out, str_plural(j->left_out, "change was", "changes were"));
    buf_addf(&r->b, "%zu %s: %zu high, %zu medium, %zu low.\n", j->n, j->n == 1 ? "change" : "changes", j->count[RISK_HIGH],
             j->count[RISK_MEDIUM], j->count[RISK_LOW]);
    report_folds_summary(r);
    if (j->n)
        add_next(r);
}

static int add_blocks(struct report *r, const struct verdict *const *order, struct err *err) {
    for (size_t i = 0; i < r->j->n && report_lists(r, order[i]); i++) {
        enum risk_level level = order[i]->level;
        int e;

        if (i == 0 || order[i - 1]->level != level) {
            buf_adds(&r->b, i ? "\n" : "");
            report_colour(r, headings[level].sgr);
            buf_adds(&r->b, headings[level].title);
            report_colour(r, "");
            buf_addc(&r->b, '\n');
        }
        e = add_block(r, order[i], err);
        if (e < 0)
            return e;
    }
    return 0;
}

int report_text(struct report *r, struct err *err) {
    bool all = r->q->all || r->q->paths.len;
    const struct verdict **order = judge_by_risk(r->j, all);
    int e;

    if (!order)
        return err_oom(err);
    if (!r->q->block) {
        buf_addf(&r->b, "Run %s (%s) in ", r->q->run, workspace_mode_names[r->q->mode]);
        escape_text(&r->b, r->q->workspace);
        buf_adds(&r->b, "\n\n");
    }
    e = add_blocks(r, order, err);
    free(order);
    if (e == 0 && !all)
        report_folds(r);
    if (e < 0 || r->q->block)
        return e;
    buf_adds(&r->b, r->j->n ? "\n" : "");
    add_summary(r);
    return 0;
}
