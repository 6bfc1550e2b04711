/* SPDX-License-Identifier: Apache-2.0 */
/* A change set in a temporary folder, for the tests of the risk rules: old/ is the workspace, new/ what the run left. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "review/risk/risk_rule.h"
#include "workspace/hide/ignore.h"

struct scene {
    char top[64];
    int old_root, new_root;
    struct change_set set;
};

static inline int scene_setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    char path[80];

    snprintf(s->top, sizeof s->top, "/tmp/bawn-risk.XXXXXX");
    assert_non_null(mkdtemp(s->top));
    s->set = (struct change_set)CHANGE_SET_INIT;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", s->top, i ? "new" : "old");
        assert_int_equal(mkdir(path, 0755), 0);
        *(i ? &s->new_root : &s->old_root) = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    s->set.new_root = s->new_root;
    s->set.host_root = s->old_root;
    *state = s;
    return 0;
}

static inline int scene_remove(const char *path, const struct stat *st, int kind, struct FTW *where) {
    return remove(path);
}

static inline void scene_clear(struct scene *s) {
    for (size_t i = 0; i < s->set.n; i++) {
        free(s->set.v[i].path);
        free(s->set.v[i].from);
        free(s->set.v[i].new_.link);
    }
    free(s->set.v);
    s->set = (struct change_set){.new_root = s->new_root, .host_root = s->old_root};
}

static inline int scene_teardown(void **state) {
    struct scene *s = *state;

    scene_clear(s);
    close(s->old_root);
    close(s->new_root);
    nftw(s->top, scene_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(s);
    return 0;
}

static inline void scene_write(int root, const char *path, const void *data, size_t len) {
    char part[4200];
    CLEANUP(closep) int fd = -1;

    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        assert_true(mkdirat(root, part, 0755) == 0 || errno == EEXIST);
    }
    fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, len), 0);
}

static inline int scene_order(const void *a, const void *b) {
    return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

/* Adds a change; it is found by its path afterwards, for the set is sorted. */
static inline void scene_add(struct scene *s, struct change c) {
    s->set.v = reallocarray(s->set.v, s->set.n + 1, sizeof *s->set.v);
    assert_non_null(s->set.v);
    s->set.v[s->set.n++] = c;
    qsort(s->set.v, s->set.n, sizeof *s->set.v, scene_order);
}

/* NULL: no file on that side. */
static inline void scene_bytes(struct scene *s, const char *path, const char *before, size_t before_len, const char *now,
                               size_t now_len) {
    struct change c = {.path = strdup(path), .what = CHANGE_CONTENT};

    if (before) {
        scene_write(s->old_root, path, before, before_len);
        c.old_ = (struct change_side){S_IFREG | 0644, before_len, NULL};
    }
    if (now) {
        scene_write(s->new_root, path, now, now_len);
        c.new_ = (struct change_side){S_IFREG | 0644, now_len, NULL};
    }
    c.kind = !before ? CHANGE_ADDED : now ? CHANGE_MODIFIED : CHANGE_DELETED;
    scene_add(s, c);
}

static inline void scene_text(struct scene *s, const char *path, const char *before, const char *now) {
    scene_bytes(s, path, before, before ? strlen(before) : 0, now, now ? strlen(now) : 0);
}

static inline void scene_link(struct scene *s, const char *path, const char *target) {
    scene_add(s, (struct change){.kind = CHANGE_ADDED, .path = strdup(path), .new_ = {S_IFLNK | 0777, 0, strdup(target)}});
}

static inline struct change *scene_change(struct scene *s, const char *path) {
    struct change *c = (struct change *)change_find(&s->set, path);

    assert_non_null(c);
    return c;
}

static inline struct risk_list scene_judge(struct scene *s, const char *path) {
    struct risk_context ctx;
    struct risk_list l = {0};
    struct err err = {0};

    assert_int_equal(risk_context_init(&ctx, &s->set, s->old_root, NULL, &err), 0);
    assert_int_equal(risk_judge(&ctx, scene_change(s, path), &l, &err), 0);
    risk_context_done(&ctx);
    for (size_t i = 1; i < l.n; i++)
        assert_true(l.v[i - 1].level >= l.v[i].level);
    return l;
}

static inline void scene_print(const char *path, const struct risk_list *l) {
    print_message("# %s has %zu risks\n", path, l->n);
    for (size_t i = 0; i < l->n; i++)
        print_message("#   %s %s line %u: %s\n", risk_classes[l->v[i].class].name, risk_level_names[l->v[i].level], l->v[i].line,
                      l->v[i].reason);
}

/* The change has a risk of this class and level whose reason contains the words. */
static inline void scene_expect(struct scene *s, const char *path, enum risk_class class, enum risk_level level,
                                const char *words) {
    CLEANUP(risk_list_done) struct risk_list l = scene_judge(s, path);

    for (size_t i = 0; i < l.n; i++)
        if (l.v[i].class == class && l.v[i].level == level && strstr(l.v[i].reason, words))
            return;
    scene_print(path, &l);
    fail_msg("%s: no %s risk of level %s with '%s'", path, risk_classes[class].name, risk_level_names[level], words);
}

static inline void scene_expect_none(struct scene *s, const char *path) {
    CLEANUP(risk_list_done) struct risk_list l = scene_judge(s, path);

    if (l.n)
        scene_print(path, &l);
    assert_int_equal(l.n, 0);
}

/* One example: both versions of a file, and what must be said about it. */
struct example {
    const char *path, *before, *now;
    enum risk_class class;
    enum risk_level level; /* RISK_NONE: nothing at all */
    const char *words;
};

static inline void scene_examples(struct scene *s, const struct example *e, size_t n) {
    for (size_t i = 0; i < n; i++) {
        scene_text(s, e[i].path, e[i].before, e[i].now);
        if (e[i].level == RISK_NONE)
            scene_expect_none(s, e[i].path);
        else
            scene_expect(s, e[i].path, e[i].class, e[i].level, e[i].words);
        scene_clear(s);
        unlinkat(s->old_root, e[i].path, 0);
        unlinkat(s->new_root, e[i].path, 0);
    }
}
