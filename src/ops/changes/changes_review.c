/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of bawn-review about the changes of a run. */
#include "ops/changes/changes_review.h"

#include "base/buf.h"
#include "base/err.h"
#include "supervisor/session/review_spawn.h"

static int add_option(struct strv *words, const char *name, const char *value) {
    return value ? strv_addf(words, "--%s=%s", name, value) : 0;
}

static int add_options(const struct changes_report *q, struct strv *ret) {
    const struct {
        bool wanted;
        const char *word;
    } switches[] = {{q->must_match, "--must-match"}, {q->path || q->folder, "--block"}, {q->all, "--all"}, {q->diff, "--diff"},
                    {q->colour, "--color"},          {q->terminal, "--terminal"}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(switches); i++)
        r = switches[i].wanted ? strv_add(ret, switches[i].word) : 0;
    for (size_t i = 0; r == 0 && q->only && i < q->only->len; i++)
        r = add_option(ret, "only", q->only->v[i]);
    for (size_t i = 0; r == 0 && q->except && i < q->except->len; i++)
        r = add_option(ret, "except", q->except->v[i]);
    r = r < 0 ? r : add_option(ret, "folder", q->folder);
    r = r < 0 ? r : add_option(ret, "fail-on", q->fail_on);
    r = r < 0 ? r : add_option(ret, "format", q->format);
    return r < 0 ? r : add_option(ret, "path", q->path);
}

int changes_report(const struct run_pick *p, const struct changes_report *q,
                   void (*sink)(const char *data, size_t len, void *arg), void *arg, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = q->task, RUN_PICK_JOB(*p)};

    return add_options(q, &job.words) < 0 ? err_oom(err) : review_spawn(&job, sink, arg, err);
}

void changes_to_buf(const char *data, size_t len, void *arg) {
    buf_add(arg, data, len);
}
