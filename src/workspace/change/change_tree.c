/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sync and worktree mode: the private copy against the manifest, which knows each file of it and of the workspace as they were
 * when the copy was made. The old content is the workspace's as long as the manifest knows it again, else the journal's.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/str.h"
#include "workspace/change/change_priv.h"
#include "workspace/copy/manifest.h"

struct change_tree {
    const struct manifest *manifest;
    bool *seen;    /* one per entry of the manifest */
    bool skip_git; /* worktree: tree/.git is ours, not a file of the branch */
    uint64_t dev;  /* of the copy */
};

/* Marks it as seen. NULL also if the copy had nothing there. */
static const struct manifest_entry *find_entry(struct change_tree *t, const char *path) {
    const struct manifest_entry *e = manifest_find(t->manifest, path);

    if (e)
        t->seen[e - manifest_at(t->manifest, 0)] = true;
    return e && e->copy.mode ? e : NULL;
}

/* A stamp without ctime was taken in the tick of the clock in which the host's file last changed. It is still that file if its
 * last change is not later than the copy. */
static bool is_same_host(const struct manifest_entry *e, const struct manifest_stamp *now) {
    struct manifest_stamp was = e->host;

    if (was.mode && !was.ctime_ns && was.mtime_ns == now->mtime_ns && now->ctime_ns <= e->copy.ctime_ns)
        was.ctime_ns = now->ctime_ns;
    return manifest_same(&was, now);
}

/* The journal has the first version; after a sync the copy has another base. */
static bool is_base(const struct journal_entry *stored, const struct manifest_entry *e) {
    if (stored->kind != JOURNAL_FILE)
        return stored->kind != JOURNAL_ABSENT;
    return stored->size == e->copy.size && (stored->mtime_ns == e->host.mtime_ns || stored->mtime_ns == e->copy.mtime_ns);
}

static int base_from_journal(struct change_maker *m, const struct manifest_entry *e, struct change_view *ret) {
    const struct journal_entry *stored = m->set->journal ? journal_find(m->set->journal, e->path) : NULL;

    if (stored && is_base(stored, e))
        return view_of_entry(m->set->journal, stored, ret) < 0 ? err_oom(m->err) : 0;
    *ret = (struct change_view){.dir = -1, .unknown = true}; /* nothing but the manifest knows it */
    ret->st.st_mode = e->copy.mode;
    ret->st.st_size = (off_t)e->copy.size;
    return 0;
}

/* The version that the copy was made from. */
static int look_at_base(struct change_maker *m, const struct manifest_entry *e, struct change_view *ret, bool *ret_touched) {
    CLEANUP(view_done) struct change_view host = CHANGE_VIEW_INIT;
    struct manifest_stamp now = {0};
    int r = view_look(m->set->host_root, e->path, &host);

    if (host.st.st_mode)
        now = manifest_stamp_of(&host.st);
    *ret_touched = r < 0 || !is_same_host(e, &now);
    if (*ret_touched || !host.st.st_mode) {
        r = base_from_journal(m, e, ret);
    } else {
        *ret = host;
        host.link = NULL;
        r = 0;
    }
    if (r == 0) /* the copy was made without setuid and the like: that is no change of the run's */
        ret->st.st_mode = (ret->st.st_mode & S_IFMT) | (e->copy.mode & 07777);
    return r;
}

static int add_known(struct change_maker *m, const struct manifest_entry *e, const struct change_view *now) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_MODIFIED, .old = &old, .now = now};
    int r = look_at_base(m, e, &old, &f.host_changed);

    if (r == 0)
        r = maker_compare(m, &old, now, &f.what);
    return r < 0 || f.what == 0 ? r : maker_add(m, &f);
}

/* The manifest has no such path, so neither side had it. */
static int add_new(struct change_maker *m, const struct change_view *now, uint64_t dev) {
    CLEANUP(view_done) struct change_view host = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_ADDED, .now = now, .id = {.dev = dev, .ino = now->st.st_ino}};
    unsigned what = CHANGE_TYPE;
    int r = 0;

    f.hidden = maker_hides(m, S_ISDIR(now->st.st_mode));
    if (!f.hidden)
        r = view_look(m->set->host_root, m->path, &host);
    if (r < 0)
        return maker_note(m, m->path, "could not be looked at in the workspace", r);
    f.host_changed = host.st.st_mode != 0;
    if (f.host_changed)
        r = maker_compare(m, &host, now, &what);
    if (r < 0 || what == 0 || (S_ISDIR(now->st.st_mode) && S_ISDIR(host.st.st_mode)))
        return r;
    return maker_add(m, &f);
}

static int visit_tree(struct change_maker *m, int folder, const char *name, void *arg) {
    CLEANUP(view_done) struct change_view now = CHANGE_VIEW_INIT;
    struct change_tree *t = arg;
    const struct manifest_entry *e;
    struct manifest_stamp stamp;
    int r;

    if (t->skip_git && str_eq(m->path, ".git"))
        return 0;
    e = find_entry(t, m->path);
    r = view_look(folder, name, &now);
    if (r < 0)
        return maker_note(m, m->path, "could not be looked at", r);
    if (!now.st.st_mode)
        return 0;
    stamp = manifest_stamp_of(&now.st);
    if (!e)
        r = add_new(m, &now, t->dev);
    else if (!manifest_same(&stamp, &e->copy))
        r = add_known(m, e, &now);
    if (r == 0 && S_ISDIR(now.st.st_mode))
        r = maker_each(m, folder, name, visit_tree, t);
    return r;
}

/* It may have been missed, so it is looked for once more. */
static int add_deleted(struct change_maker *m, const struct change_tree *t, const struct manifest_entry *e) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT, now = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_DELETED, .old = &old};
    int r = maker_set_path(m, e->path) ? view_look(m->set->new_root, e->path, &now) : -ENAMETOOLONG;

    if (r < 0)
        return maker_note(m, e->path, "could not be looked at", r);
    if (now.st.st_mode || maker_hides(m, S_ISDIR(e->copy.mode)))
        return 0;
    r = look_at_base(m, e, &old, &f.host_changed);
    f.id = (struct change_id){.dev = t->dev, .ino = e->copy.ino, .known_ns = e->copy.ctime_ns};
    return r < 0 ? r : maker_add(m, &f);
}

int change_make_tree(struct change_maker *m) {
    CLEANUP(manifest_freep) struct manifest *manifest = NULL;
    CLEANUP(freep) bool *seen = NULL;
    struct change_tree t = {.skip_git = m->rd->info.mode == WORKSPACE_WORKTREE};
    struct stat st;
    int r = manifest_load(m->rd->fd, "manifest", &manifest, m->err);

    if (r == -ENOENT)
        return err_set(m->err, r, "the run '%s' has no manifest: its copy was not finished", m->rd->name);
    if (r < 0)
        return r;
    seen = calloc(manifest_count(manifest) + 1, sizeof *seen);
    if (!seen)
        return err_oom(m->err);
    if (fstat(m->set->new_root, &st) < 0)
        return err_sys(m->err, -errno, "look at the files of the run");
    t.manifest = manifest;
    t.seen = seen;
    t.dev = st.st_dev;
    r = maker_each(m, m->set->new_root, ".", visit_tree, &t);
    for (size_t i = 0; i < manifest_count(manifest) && r == 0; i++) {
        const struct manifest_entry *e = manifest_at(manifest, i);

        if (!seen[i] && e->copy.mode)
            r = add_deleted(m, &t, e);
    }
    return r;
}
