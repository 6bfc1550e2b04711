/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of bawn-review about the changes of a run, and which of them are of high risk. */
#include "ops/changes/changes_review.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "supervisor/session/review_spawn.h"

static int add_option(struct strv *words, const char *name, const char *value) {
    return value ? strv_addf(words, "--%s=%s", name, value) : 0;
}

static int add_options(const struct changes_report *q, struct strv *ret) {
    const struct {
        bool wanted;
        const char *word;
    } switches[] = {{q->must_match, "--must-match"},
                    {q->path, "--block"},
                    {q->diff, "--diff"},
                    {q->colour, "--color"},
                    {q->terminal, "--terminal"}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(switches); i++)
        r = switches[i].wanted ? strv_add(ret, switches[i].word) : 0;
    for (size_t i = 0; r == 0 && q->only && i < q->only->len; i++)
        r = add_option(ret, "only", q->only->v[i]);
    r = r < 0 ? r : add_option(ret, "fail-on", q->fail_on);
    r = r < 0 ? r : add_option(ret, "format", q->format);
    return r < 0 ? r : add_option(ret, "path", q->path);
}

int changes_report(const struct run_pick *p, const struct changes_report *q,
                   void (*sink)(const char *data, size_t len, void *arg), void *arg, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = q->task, RUN_PICK_JOB(*p)};

    return add_options(q, &job.words) < 0 ? err_oom(err) : review_spawn(&job, sink, arg, err);
}

static void to_buf(const char *data, size_t len, void *arg) {
    buf_add(arg, data, len);
}

int changes_paths(const struct run_pick *p, const struct strv *only, struct buf *ret, struct err *err) {
    const struct changes_report q = {.task = "review", .format = "paths", .only = only};
    int r = changes_report(p, &q, to_buf, ret, err);

    return r < 0 ? r : buf_ok(ret) ? 0 : err_oom(err);
}

/* A path, and whether its risk is high; both point into the report. */
struct judged {
    const char *path;
    bool high;
};

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

static int collect_risky(const struct buf *report, const struct apply_result *r, struct strv *ret, struct err *err) {
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
        return err_set(err, -EBADMSG, "the answer of bawn-review is incomplete");
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

int changes_risks(const struct run_pick *p, const struct apply_result *r, struct strv *ret_risky, struct err *err) {
    CLEANUP(buf_done) struct buf report = BUF_INIT(CHANGES_PATHS_MAX);
    CLEANUP(strv_done) struct strv risky = {0};
    int e = changes_paths(p, NULL, &report, err);

    e = e < 0 ? e : collect_risky(&report, r, &risky, err);
    if (e < 0)
        return e;
    *ret_risky = TAKE(risky, (struct strv){0});
    return 0;
}
