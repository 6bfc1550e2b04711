/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/copy/hardlinks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/copy/walk.h"

struct linked {
    dev_t dev;
    ino_t ino;
    nlink_t left; /* names that were not met yet */
};

struct hardlinks_search {
    struct linked *v;
    size_t n;
    size_t left; /* files with names that were not met yet */
    size_t entries;
    bool cut;
    struct strv *ret;
};

static void search_done(struct hardlinks_search *s) {
    free(s->v);
}

static struct linked *find_linked(const struct hardlinks_search *s, const struct stat *st) {
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].ino == st->st_ino && s->v[i].dev == st->st_dev)
            return &s->v[i];
    return NULL;
}

static void meet(struct hardlinks_search *s, struct linked *l) {
    if (l->left > 0 && --l->left == 0)
        s->left--;
}

/* A name of a hidden file. */
static int add_linked(struct hardlinks_search *s, const struct stat *st, struct err *err) {
    struct linked *l = find_linked(s, st);

    if (!S_ISREG(st->st_mode) || st->st_nlink < 2 || st->st_size == 0)
        return 0;
    if (l) {
        meet(s, l);
        return 0;
    }
    if (s->n == HARDLINKS_MAX) {
        s->cut = true;
        return 0;
    }
    if (VEC_ADD(s->v, s->n, (struct linked){st->st_dev, st->st_ino, st->st_nlink - 1}) < 0)
        return err_oom(err);
    s->left++;
    return 0;
}

static int in_hidden_folder(const struct walk_entry *e, void *arg, struct err *err) {
    struct hardlinks_search *s = arg;

    if (s->entries++ == HARDLINKS_ENTRIES_MAX) {
        s->cut = true;
        return -ECANCELED;
    }
    return add_linked(s, &e->st, err);
}

static int skip(const struct walk_entry *e UNUSED, void *arg UNUSED, struct err *err UNUSED) {
    return WALK_SKIP;
}

static int look_at(struct hardlinks_search *s, int workspace, const char *path, struct err *err) {
    const struct walk_ops ops = {.found = in_hidden_folder, .closed = skip, .arg = s};
    CLEANUP(closep) int fd = -1;
    struct err ignored = {0};
    struct stat st;
    int r;

    if (fstatat(workspace, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* gone, or closed to us, and so to the inside */
    if (!S_ISDIR(st.st_mode))
        return add_linked(s, &st, err);
    fd = safepath_open(workspace, path, O_PATH | O_DIRECTORY);
    r = fd < 0 || s->cut ? 0 : walk_tree(fd, NULL, &ops, &ignored);
    if (r == -ENOMEM)
        return err_oom(err);
    s->cut |= r < 0;
    return 0;
}

static int in_workspace(const struct walk_entry *e, void *arg, struct err *err) {
    struct hardlinks_search *s = arg;
    struct linked *l = S_ISREG(e->st.st_mode) && e->st.st_nlink > 1 ? find_linked(s, &e->st) : NULL;

    if (!l)
        return WALK_ON;
    if (strv_add(s->ret, e->path) < 0)
        return err_oom(err);
    meet(s, l);
    return s->left ? WALK_ON : -ECANCELED;
}

int hardlinks_of_hidden(int workspace, const struct strv *linked, const struct ignore *rules, struct strv *ret, struct err *err) {
    CLEANUP(search_done) struct hardlinks_search s = {.ret = ret};
    const struct walk_ops ops = {.found = in_workspace, .closed = skip, .arg = &s};
    int r = 0;

    for (size_t i = 0; r == 0 && i < linked->len; i++)
        r = look_at(&s, workspace, linked->v[i], err);
    if (r == 0 && s.left)
        r = walk_tree(workspace, rules, &ops, err);
    return r == -ECANCELED ? s.cut : r < 0 ? r : s.cut;
}
