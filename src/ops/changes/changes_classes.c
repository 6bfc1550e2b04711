/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-review says about each change. */
#include "ops/changes/changes_classes.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "ops/changes/changes_review.h"

const char *const changes_class_names[CHANGES_CLASSES] = {
    [CHANGES_HIGH] = "high", [CHANGES_DEPENDENCIES] = "dependencies", [CHANGES_MEDIUM] = "medium", [CHANGES_LOW] = "low",
    [CHANGES_NONE] = "none",
};

void changes_verdicts_done(struct changes_verdicts *v) {
    buf_done(&v->report);
    free(v->v);
    free(v->by_path);
    *v = (struct changes_verdicts)CHANGES_VERDICTS_INIT;
}

/* The string at *at, which moves behind it; NULL: it has no end. */
static const char *next_string(const struct buf *b, size_t *at) {
    const char *s = b->data + *at, *end = *at < b->len ? memchr(s, 0, b->len - *at) : NULL;

    *at = end ? (size_t)(end + 1 - b->data) : b->len;
    return end ? s : NULL;
}

/* As in request.h. A word that is not known counts as the worst. */
static struct changes_verdict read_verdict(const char *level, const char *path, const char *folder) {
    bool unusual = *folder == '!', plain = *folder == '=';
    int class = str_index(level, changes_class_names, CHANGES_CLASSES);
    struct changes_verdict v = {.path = path, .folder = folder + (unusual || plain), .class = CHANGES_HIGH};

    v.high = class <= CHANGES_DEPENDENCIES;
    if (*v.folder && !unusual && !plain)
        v.class = CHANGES_DEPENDENCIES;
    else if (!v.high && !unusual)
        v.class = (enum changes_class) class;
    return v;
}

/* "level" NUL "path" NUL "folder" NUL ... */
static int read_report(struct changes_verdicts *v, struct err *err) {
    size_t at = 0;

    while (at < v->report.len) {
        const char *level = next_string(&v->report, &at), *path = level ? next_string(&v->report, &at) : NULL;
        const char *folder = path ? next_string(&v->report, &at) : NULL;

        if (!folder)
            return err_set(err, -EBADMSG, "the answer of bawn-review is incomplete");
        if (VEC_ADD(v->v, v->n, read_verdict(level, path, folder)) < 0)
            return err_oom(err);
    }
    return 0;
}

static int by_path(const void *a, const void *b) {
    const struct changes_verdict *x = *(const struct changes_verdict *const *)a, *y = *(const struct changes_verdict *const *)b;

    return strcmp(x->path, y->path);
}

int changes_verdicts(const struct run_pick *p, const struct strv *only, const struct strv *except, struct changes_verdicts *ret,
                     struct err *err) {
    const struct changes_report q = {.task = "review", .format = "paths", .only = only, .except = except};
    int r = changes_report(p, &q, changes_to_buf, &ret->report, err);

    if (r < 0 || !buf_ok(&ret->report))
        return r < 0 ? r : err_oom(err);
    r = read_report(ret, err);
    if (r < 0)
        return r;
    ret->by_path = calloc(ret->n + 1, sizeof(void *));
    if (!ret->by_path)
        return err_oom(err);
    for (size_t i = 0; i < ret->n; i++)
        ret->by_path[i] = &ret->v[i];
    qsort(ret->by_path, ret->n, sizeof(void *), by_path);
    return 0;
}

const struct changes_verdict *changes_verdict_find(const struct changes_verdicts *v, const char *path) {
    const struct changes_verdict key = {.path = path}, *at = &key, **found;

    found = v->n ? bsearch(&at, v->by_path, v->n, sizeof(void *), by_path) : NULL;
    return found ? *found : NULL;
}
