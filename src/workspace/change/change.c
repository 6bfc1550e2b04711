/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/change/change.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/change/change_priv.h"

const char *const change_kind_names[CHANGE_KINDS] = {
    [CHANGE_ADDED] = "added",
    [CHANGE_MODIFIED] = "modified",
    [CHANGE_DELETED] = "deleted",
    [CHANGE_RENAMED] = "renamed",
};

void change_done(struct change *c) {
    free(c->path);
    free(c->from);
    free(c->old_.link);
    free(c->new_.link);
}

void change_set_done(struct change_set *s) {
    for (size_t i = 0; i < s->n; i++)
        change_done(&s->v[i]);
    free(s->v);
    strv_done(&s->notes);
    closep(&s->new_root);
    closep(&s->host_root);
    journal_closep(&s->journal);
    *s = (struct change_set)CHANGE_SET_INIT;
}

static int by_path(const void *a, const void *b) {
    const struct change *x = a, *y = b;

    return strcmp(x->path, y->path);
}

const struct change *change_find(const struct change_set *s, const char *path) {
    struct change key = {.path = (char *)path};

    return s->n ? bsearch(&key, s->v, s->n, sizeof key, by_path) : NULL;
}

/* The folder with the new side; -ENOENT: there is none (any more), and so no changes. Else returns a descriptor. */
static int open_new_root(const struct rundir *rd, int workspace) {
    static const char *const names[WORKSPACE_MODES] = {
        [WORKSPACE_OVERLAY] = "upper",
        [WORKSPACE_SYNC] = "tree",
        [WORKSPACE_WORKTREE] = "tree",
    };
    int fd;

    if (rd->info.mode == WORKSPACE_RO)
        return -ENOENT;
    if (names[rd->info.mode])
        return safepath_open(rd->fd, names[rd->info.mode], O_RDONLY | O_DIRECTORY);
    fd = fcntl(workspace, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

/* Returns 1, or 0 if there is nothing to compare. */
static int open_sources(struct change_maker *m, int workspace) {
    struct change_set *s = m->set;
    int r;

    r = open_new_root(m->rd, workspace);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_sys(m->err, r, "open the files of the run '%s'", m->rd->name);
    s->new_root = r;
    if (m->rd->info.mode != WORKSPACE_DIRECT) {
        s->host_root = fcntl(workspace, F_DUPFD_CLOEXEC, 0);
        if (s->host_root < 0)
            return err_sys(m->err, -errno, "open the workspace");
    }
    r = journal_open(m->rd->fd, false, &(struct journal_opts){0}, &s->journal, m->err);
    return r < 0 && r != -ENOENT ? r : 1;
}

static uint64_t now_ns(void) {
    struct timespec t;

    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int change_set_make(const struct rundir *rd, int workspace, const struct ignore *hidden, struct change_set *ret,
                    struct err *err) {
    static int (*const make[WORKSPACE_MODES])(struct change_maker *) = {
        [WORKSPACE_DIRECT] = change_make_direct,
        [WORKSPACE_OVERLAY] = change_make_overlay,
        [WORKSPACE_SYNC] = change_make_tree,
        [WORKSPACE_WORKTREE] = change_make_tree,
    };
    CLEANUP(change_set_done) struct change_set s = CHANGE_SET_INIT;
    CLEANUP(maker_done) struct change_maker m = {.rd = rd, .hidden = hidden, .set = &s, .err = err};
    int r;

    s.made_ns = now_ns();
    r = open_sources(&m, workspace);
    if (r > 0)
        r = make[rd->info.mode](&m);
    if (r == 0)
        r = change_find_renames(&m);
    if (r < 0)
        return r;
    if (s.n > 0)
        qsort(s.v, s.n, sizeof *s.v, by_path);
    *ret = s;
    s = (struct change_set)CHANGE_SET_INIT;
    return 0;
}

static int open_regular(int root, const char *path) {
    CLEANUP(view_done) struct change_view v = CHANGE_VIEW_INIT;
    int r = root < 0 ? -ENOENT : view_look(root, path, &v);

    if (r < 0)
        return r;
    return S_ISREG(v.st.st_mode) ? view_open(&v, NULL) : -ENOENT;
}

int change_open_new(const struct change_set *s, const struct change *c) {
    return S_ISREG(c->new_.mode) ? open_regular(s->new_root, c->path) : -ENOENT;
}

int change_open_old(const struct change_set *s, const struct change *c) {
    const char *path = c->from ? c->from : c->path;
    const struct journal_entry *e = s->journal ? journal_find(s->journal, path) : NULL;
    CLEANUP(view_done) struct change_view v = CHANGE_VIEW_INIT;
    int r = -ENOENT;

    if (!S_ISREG(c->old_.mode))
        return -ENOENT;
    if (c->old_unknown)
        return -ENODATA;
    if (!c->host_changed)
        r = open_regular(s->host_root, path);
    if (r != -ENOENT)
        return r;
    if (!e || e->kind != JOURNAL_FILE)
        return -ENODATA;
    r = view_of_entry(s->journal, e, &v);
    return r < 0 ? r : view_open(&v, s->journal);
}
