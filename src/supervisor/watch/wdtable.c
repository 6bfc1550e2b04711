/* SPDX-License-Identifier: Apache-2.0 */
/* Watch descriptors of inotify and their paths: an open hash table. */
#include "supervisor/watch/wdtable.h"

#include <errno.h>

#include "base/str.h"

enum { CAP_FIRST = 64 };

void wdtable_done(struct wdtable *t) {
    for (size_t i = 0; i < t->cap; i++)
        free(t->v[i].path);
    free(t->v);
    *t = (struct wdtable){0};
}

/* Descriptors are given out in turn, so they are their own hash. */
static size_t home_of(const struct wdtable *t, int wd) {
    return (size_t)wd & (t->cap - 1);
}

static struct wd_path *slot(const struct wdtable *t, int wd) {
    size_t i = home_of(t, wd);

    while (t->v[i].path && t->v[i].wd != wd)
        i = (i + 1) & (t->cap - 1);
    return &t->v[i];
}

static int grow_table(struct wdtable *t) {
    struct wdtable more = {.cap = t->cap ? 2 * t->cap : CAP_FIRST, .n = t->n};

    if (t->n >= WDTABLE_MAX)
        return -ENOMEM;
    more.v = calloc(more.cap, sizeof *more.v);
    if (!more.v)
        return -ENOMEM;
    for (size_t i = 0; i < t->cap; i++)
        if (t->v[i].path)
            *slot(&more, t->v[i].wd) = t->v[i];
    free(t->v);
    *t = more;
    return 0;
}

int wdtable_set(struct wdtable *t, int wd, const char *path) {
    int r = t->n >= t->cap / 2 ? grow_table(t) : 0;
    char *copy = r < 0 ? NULL : strdup(path);
    struct wd_path *s;

    if (!copy)
        return -ENOMEM;
    s = slot(t, wd);
    t->n += !s->path;
    free(s->path);
    *s = (struct wd_path){wd, copy};
    return 0;
}

const char *wdtable_get(const struct wdtable *t, int wd) {
    return t->cap ? slot(t, wd)->path : NULL;
}

/* Those behind it move up, if their home allows it: a search ends at the first free place. */
void wdtable_remove(struct wdtable *t, int wd) {
    struct wd_path *gone = t->cap ? slot(t, wd) : NULL;
    size_t hole, i;

    if (!gone || !gone->path)
        return;
    freep(&gone->path);
    t->n--;
    hole = i = (size_t)(gone - t->v);
    for (;;) {
        i = (i + 1) & (t->cap - 1);
        if (!t->v[i].path)
            return;
        if (((i - home_of(t, t->v[i].wd)) & (t->cap - 1)) >= ((i - hole) & (t->cap - 1))) {
            t->v[hole] = t->v[i];
            t->v[i].path = NULL;
            hole = i;
        }
    }
}
