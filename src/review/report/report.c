/* SPDX-License-Identifier: Apache-2.0 */
#include "review/report/report.h"

#include <errno.h>

#include "base/err.h"
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

static int report_paths(struct report *r, struct err *err) {
    const struct verdict **order = judge_by_risk(r->j);

    if (!order)
        return err_oom(err);
    for (size_t i = 0; i < r->j->n; i++) {
        const char *level = risk_level_names[order[i]->level];

        buf_add(&r->b, level, strlen(level) + 1);
        buf_add(&r->b, order[i]->change->path, strlen(order[i]->change->path) + 1);
    }
    free(order);
    return 0;
}

static void add_pair(struct buf *b, const char *key, const char *value) {
    buf_add(b, key, strlen(key) + 1);
    buf_add(b, value, strlen(value) + 1);
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
