/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the change set of a run; direct mode. */
#include "workspace/change/change.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/change/change_priv.h"
#include "workspace/copy/manifest.h"

/* -- direct mode: the journal has every path that the run touched; each is compared with what is there now -------------- */

/* 1: they differ. The journal does not say which kind of special file it saw. */
static int entries_differ(struct change_maker *m, const struct change_view *old, const struct change_view *now,
                          unsigned *ret_what) {
    int r;

    if (old->entry->kind == JOURNAL_OTHER && old->st.st_ino && old->st.st_ino == now->st.st_ino &&
        old->st.st_dev == now->st.st_dev) {
        *ret_what = ((old->st.st_mode ^ now->st.st_mode) & 07777) ? CHANGE_MODE : 0;
        return *ret_what != 0;
    }
    r = maker_compare(m, old, now, ret_what);
    return r < 0 ? r : *ret_what != 0;
}

/* Opened once for all records of a folder in a row, as most are. */
static int enter_folder(struct change_maker *m, const char *path, size_t len) {
    if (m->folder.fd != 0 && strncmp(m->folder.path, path, len) == 0 && m->folder.path[len] == 0)
        return m->folder.fd;
    if (m->folder.fd > 0)
        close(m->folder.fd);
    memcpy(m->folder.path, path, len);
    m->folder.path[len] = 0;
    m->folder.fd = safepath_open(m->set->new_root, m->folder.path, O_PATH | O_DIRECTORY);
    return m->folder.fd;
}

/* What is at the path of a record now. */
static int look_now(struct change_maker *m, const char *path, struct change_view *ret) {
    const char *slash = strrchr(path, '/');
    int fd;

    if (!slash)
        return view_look(m->set->new_root, path, ret);
    fd = enter_folder(m, path, (size_t)(slash - path));
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
        return 0;
    return fd < 0 ? fd : view_look(fd, slash + 1, ret);
}

static int compare_entry(struct change_maker *m, const struct journal_entry *e) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT, now = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_MODIFIED, .old = &old, .now = &now};
    int r = look_now(m, e->path, &now);

    if (r < 0)
        return maker_note(m, e->path, "could not be looked at", r);
    if (view_of_entry(m->set->journal, e, &old) < 0)
        return err_oom(m->err);
    f.hidden = maker_hides(m, S_ISDIR(now.st.st_mode ? now.st.st_mode : old.st.st_mode));
    if (old.st.st_mode && now.st.st_mode) {
        r = entries_differ(m, &old, &now, &f.what);
        return r <= 0 ? r : maker_add(m, &f);
    }
    if (now.st.st_mode) {
        f.kind = CHANGE_ADDED;
        f.old = NULL;
        f.id = (struct change_id){.dev = now.st.st_dev, .ino = now.st.st_ino};
        return maker_add(m, &f);
    }
    if (!old.st.st_mode)
        return 0;
    f.kind = CHANGE_DELETED;
    f.now = NULL;
    f.id = (struct change_id){.dev = e->dev, .ino = e->ino, .known_ns = m->rd->info.begun_ns};
    return maker_add(m, &f);
}

static int make_direct(struct change_maker *m) {
    size_t n = m->set->journal ? journal_count(m->set->journal) : 0;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        const struct journal_entry *e = journal_at(m->set->journal, i);

        if (maker_set_path(m, e->path))
            r = compare_entry(m, e);
        else
            r = maker_note(m, e->path, "is too long a path to be looked at", 0);
    }
    return r;
}

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

int change_set_make(const struct rundir *rd, int workspace, const struct ignore *hidden, struct change_set *ret,
                    struct err *err) {
    static int (*const make[WORKSPACE_MODES])(struct change_maker *) = {
        [WORKSPACE_DIRECT] = make_direct,
        [WORKSPACE_OVERLAY] = change_make_overlay,
        [WORKSPACE_SYNC] = change_make_tree,
        [WORKSPACE_WORKTREE] = change_make_tree,
    };
    CLEANUP(change_set_done) struct change_set s = CHANGE_SET_INIT;
    CLEANUP(maker_done) struct change_maker m = {.rd = rd, .hidden = hidden, .set = &s, .err = err};
    int r;

    s.made_ns = clock_coarse();
    r = open_sources(&m, workspace);
    if (r > 0)
        r = make[rd->info.mode](&m);
    if (r == 0)
        r = change_find_renames(&m);
    if (r < 0)
        return r;
    if (s.n > 0)
        qsort(s.v, s.n, sizeof *s.v, by_path);
    *ret = TAKE(s, (struct change_set)CHANGE_SET_INIT);
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
