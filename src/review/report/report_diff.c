/* SPDX-License-Identifier: Apache-2.0 */
/* Patches that `git apply` and `patch -p1` take, as far as nothing in them had to be escaped. */
#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/report/escape.h"
#include "review/report/report.h"

static void set_content(struct report_delta *d, enum report_content content, const char *why) {
    d->content = content;
    snprintf(d->why, sizeof d->why, "%.100s", why);
}

/* Content of one side as git sees it: the target for a link, nothing where there is none. 0, or -errno with the reason in d. */
static int side_load(struct report *r, const struct change *c, bool new_side, struct buf *ret, struct report_delta *d) {
    const struct change_side *side = new_side ? &c->new_ : &c->old_;
    CLEANUP(closep) int fd = -1;
    int e;

    if (S_ISLNK(side->mode) && side->link)
        buf_adds(ret, side->link);
    if (!S_ISREG(side->mode))
        return 0;
    fd = new_side ? change_open_new(&r->j->set, c) : change_open_old(&r->j->set, c);
    e = fd < 0 ? fd : diff_load(fd, ret);
    r->bytes += ret->len;
    r->lines += diff_lines(ret);
    if (e == -ENODATA)
        set_content(d, CONTENT_UNKNOWN, "the old version was not stored");
    else if (e == -EFBIG)
        set_content(d, CONTENT_TOO_LARGE, "larger than 4 MiB");
    else if (e < 0)
        set_content(d, CONTENT_UNKNOWN, new_side ? "the new version cannot be read" : "the old version cannot be read");
    return e;
}

static bool same(const struct buf *a, const struct buf *b) {
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

static int compare_versions(struct report *r, const struct change *c, struct buf *hunks, struct report_delta *ret,
                            struct err *err) {
    CLEANUP(buf_done) struct buf old_ = BUF_INIT(DIFF_FILE_MAX), new_ = BUF_INIT(DIFF_FILE_MAX);
    const struct diff_style style = {.colour = r->q->colour, .keep_cr = !r->q->terminal};
    struct report_delta d = {.content = CONTENT_TEXT};
    int e;

    *ret = d;
    if (r->bytes > DIFF_TOTAL_MAX || r->lines > DIFF_TOTAL_LINES) {
        set_content(ret, CONTENT_TOO_LARGE, "256 MiB or 20 million lines were compared already; name the file to see it");
        return 0;
    }
    if (side_load(r, c, false, &old_, ret) < 0 || side_load(r, c, true, &new_, ret) < 0)
        return 0;
    if (same(&old_, &new_))
        d.content = CONTENT_SAME;
    else if (diff_is_binary(&old_) || diff_is_binary(&new_))
        d.content = CONTENT_BINARY;
    if (d.content == CONTENT_TEXT) {
        e = diff_hunks(&old_, &new_, &style, hunks, &d.count, err);
        if (e == -EFBIG)
            set_content(&d, CONTENT_TOO_LARGE, err->msg);
        else if (e < 0)
            return e;
    }
    *ret = d;
    return 0;
}

static unsigned git_mode(mode_t mode) {
    return S_ISLNK(mode) ? 0120000 : mode & 0100 ? 0100755 : 0100644;
}

static bool git_knows(mode_t mode) {
    return S_ISREG(mode) || S_ISLNK(mode);
}

static void add_git_name(struct buf *b, const char *lead, const char *prefix, const char *path) {
    buf_adds(b, lead);
    escape_git_name(b, prefix, path);
}

static void add_modes(struct buf *b, const struct change *c) {
    if (!c->old_.mode)
        buf_addf(b, "new file mode %06o\n", git_mode(c->new_.mode));
    else if (!c->new_.mode)
        buf_addf(b, "deleted file mode %06o\n", git_mode(c->old_.mode));
    else if (git_mode(c->old_.mode) != git_mode(c->new_.mode))
        buf_addf(b, "old mode %06o\nnew mode %06o\n", git_mode(c->old_.mode), git_mode(c->new_.mode));
    if (c->from) {
        buf_adds(b, "rename from ");
        escape_git_name(b, "", c->from);
        buf_adds(b, "\nrename to ");
        escape_git_name(b, "", c->path);
        buf_addc(b, '\n');
    }
}

static void add_files(struct buf *b, const struct change *c) {
    const char *from = c->from ? c->from : c->path;

    if (c->old_.mode)
        add_git_name(b, "--- ", "a/", from);
    else
        buf_adds(b, "--- /dev/null");
    buf_addc(b, '\n');
    if (c->new_.mode)
        add_git_name(b, "+++ ", "b/", c->path);
    else
        buf_adds(b, "+++ /dev/null");
    buf_addc(b, '\n');
}

static void add_content(struct report *r, const struct change *c, const struct buf *hunks, const struct report_delta *d) {
    struct buf *b = &r->b;

    switch (d->content) {
    case CONTENT_TEXT:
        report_colour(r, "1");
        add_files(b, c);
        report_colour(r, "");
        buf_add(b, buf_str(hunks), hunks->len);
        break;
    case CONTENT_BINARY:
        add_git_name(b, "Binary files ", c->old_.mode ? "a/" : "", c->old_.mode ? (c->from ? c->from : c->path) : "/dev/null");
        add_git_name(b, " and ", c->new_.mode ? "b/" : "", c->new_.mode ? c->path : "/dev/null");
        buf_adds(b, " differ\n");
        break;
    case CONTENT_TOO_LARGE:
    case CONTENT_UNKNOWN:
        buf_addf(b, "# content not shown: %s\n", d->why);
        break;
    case CONTENT_SAME:
        break;
    }
}

/* One side of a change of type, which git shows as a deletion and a new file. */
static int half(struct report *r, const struct change *c, bool new_side, struct report_delta *d, struct err *err) {
    struct change part = *c;
    const struct change_side none = {0};

    part.kind = new_side ? CHANGE_ADDED : CHANGE_DELETED;
    *(new_side ? &part.old_ : &part.new_) = none;
    part.what &= ~(unsigned)CHANGE_TYPE;
    part.path = new_side || !c->from ? c->path : c->from;
    part.from = NULL;
    return report_section(r, &part, d, err);
}

static void other(struct report *r, const struct change *c) {
    buf_addf(&r->b, "# %s %s: ", report_type(c->new_.mode ? c->new_.mode : c->old_.mode), change_kind_names[c->kind]);
    escape_git_name(&r->b, "", c->path);
    if (c->old_.mode && c->new_.mode && c->old_.mode != c->new_.mode)
        buf_addf(&r->b, " (mode %04o, was %04o)", c->new_.mode & 07777, c->old_.mode & 07777);
    buf_addc(&r->b, '\n');
}

int report_section(struct report *r, const struct change *c, struct report_delta *ret, struct err *err) {
    CLEANUP(buf_done) struct buf hunks = BUF_INIT(DIFF_OUTPUT_MAX);
    int e;

    if (c->old_.mode && c->new_.mode && (c->old_.mode & S_IFMT) != (c->new_.mode & S_IFMT)) {
        e = half(r, c, false, ret, err);
        return e < 0 ? e : half(r, c, true, ret, err);
    }
    *ret = (struct report_delta){.content = CONTENT_SAME};
    if (!git_knows(c->new_.mode ? c->new_.mode : c->old_.mode)) {
        other(r, c);
        return 0;
    }
    e = compare_versions(r, c, &hunks, ret, err);
    if (e < 0)
        return e;
    report_colour(r, "1");
    add_git_name(&r->b, "diff --git ", "a/", c->from ? c->from : c->path);
    add_git_name(&r->b, " ", "b/", c->path);
    buf_addc(&r->b, '\n');
    add_modes(&r->b, c);
    report_colour(r, "");
    add_content(r, c, &hunks, ret);
    return 0;
}

int report_patch(struct report *r, struct err *err) {
    for (size_t i = 0; i < r->j->n; i++) {
        struct report_delta d;
        int e = report_section(r, r->j->v[i].change, &d, err);

        e = e < 0 ? e : report_flush(r, false, err);
        if (e < 0)
            return e;
    }
    return 0;
}

/* -- --stat --------------------------------------------------------------------------------------------------------------- */

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
        return "old version not stored";
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

static int add_stat_line(struct report *r, const struct change *c, struct totals *t, struct err *err) {
    struct report_delta d;
    int e = compare_versions(r, c, NULL, &d, err);

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
        int e = add_stat_line(r, r->j->v[i].change, &t, err);

        if (e < 0)
            return e;
    }
    buf_addf(&r->b, " %zu changed, %zu %s added, %zu removed\n", r->j->n, t.added, str_plural(t.added, "line", "lines"),
             t.removed);
    return 0;
}
