/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/changes/apply_risk.h"
#include "ops/changes/run_pick.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "supervisor/session/review_spawn.h"

enum { PATHS_MAX = 1024 * 1024 * 1024 };

/* A path, and whether its risk is high; both point into the report. */
struct judged {
    const char *path;
    bool high;
};

static void to_buf(const char *data, size_t len, void *arg) {
    buf_add(arg, data, len);
}

/* "level" NUL "path" NUL ...: the bytes come from a process that reads hostile files. */
static int next_pair(const struct buf *b, size_t *at, struct judged *ret) {
    const char *level = b->data + *at, *end = b->data + b->len, *path, *stop;

    if (*at >= b->len)
        return 0;
    path = memchr(level, 0, (size_t)(end - level));
    stop = path && path + 1 < end ? memchr(path + 1, 0, (size_t)(end - path - 1)) : NULL;
    if (!stop)
        return -1;
    *ret = (struct judged){.path = path + 1, .high = str_eq(level, "high")};
    *at = (size_t)(stop + 1 - b->data);
    return 1;
}

static int by_path(const void *a, const void *b) {
    const struct judged *x = a, *y = b;

    return strcmp(x->path, y->path);
}

static bool comes_in(const struct apply_item *it) {
    return it->outcome == APPLY_DONE || it->outcome == APPLY_MERGED || it->outcome == APPLY_CONFLICT;
}

static int collect(const struct buf *report, const struct apply_result *r, struct strv *ret, struct err *err) {
    CLEANUP(freep) struct judged *v = calloc(report->len / 2 + 1, sizeof *v);
    size_t n = 0, at = 0;
    int more = 1;

    if (!v)
        return err_oom(err);
    while (more > 0) {
        more = next_pair(report, &at, &v[n]);
        n += more > 0;
    }
    if (more < 0)
        return err_set(err, -EBADMSG, "the answer of bawn-review is cut off");
    qsort(v, n, sizeof *v, by_path);
    for (size_t i = 0; i < r->n; i++) {
        const struct judged key = {.path = r->v[i].change->path}, *found;

        if (!comes_in(&r->v[i]))
            continue;
        found = bsearch(&key, v, n, sizeof *v, by_path);
        if ((!found || found->high) && strv_add(ret, key.path) < 0)
            return err_oom(err);
    }
    return 0;
}

int apply_risks(const struct run_pick *p, const struct apply_result *r, struct strv *ret_risky, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = "review", RUN_PICK_JOB(*p)};
    CLEANUP(buf_done) struct buf report = BUF_INIT(PATHS_MAX);
    CLEANUP(strv_done) struct strv risky = {0};
    int e;

    if (strv_add(&job.words, "--format=paths") < 0)
        return err_oom(err);
    e = review_spawn(&job, to_buf, &report, err);
    if (e < 0)
        return e;
    if (!buf_ok(&report))
        return err_oom(err);
    e = collect(&report, r, &risky, err);
    if (e < 0)
        return e;
    *ret_risky = risky;
    risky = (struct strv){0};
    return 0;
}
