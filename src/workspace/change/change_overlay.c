/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlay mode: upper/, as overlayfs left it, against the workspace that was its lower layer.
 *
 *     in upper/                         means
 *     character device 0:0              deleted (the sandbox cannot make one itself: overlayfs refuses)
 *     folder with user.overlay.opaque   nothing of the lower one shows through, all the way down
 *     any other folder                  the two together
 *     anything else                     in the place of whatever the lower layer has
 *
 * Names that were hidden were not there for the run, so the host's files of these names are never looked at, and
 * count neither as changed nor, when a folder around them was deleted, as deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/change/change_priv.h"
#include "workspace/copy/manifest.h"

/* The folder that is being walked. */
struct overlay_level {
    int host; /* the workspace's folder of the same path; -1: it has none */
    bool opaque;
};

/* What both layers have at a path. */
struct overlay_pair {
    struct change_view up, host;
    bool hidden;
};

static void pair_done(struct overlay_pair *p) {
    view_done(&p->up);
    view_done(&p->host);
}

static bool is_whiteout(const struct change_view *v) {
    return S_ISCHR(v->st.st_mode) && v->st.st_rdev == 0;
}

/* An attribute that overlayfs itself wrote; with a value, exactly this one. */
static bool has_mark(const struct change_view *up, const char *name, char value) {
    CLEANUP(closep) int fd = S_ISREG(up->st.st_mode) || S_ISDIR(up->st.st_mode) ? view_open(up, NULL) : -1;
    char buf[256];
    ssize_t n = fd < 0 ? -1 : fgetxattr(fd, name, buf, sizeof buf);

    return n >= 0 && (!value || (n == 1 && buf[0] == value));
}

static bool is_copied_up(const struct change_view *up) {
    return has_mark(up, "user.overlay.origin", 0);
}

static const struct journal_entry *base_of(const struct change_maker *m) {
    const struct journal_entry *e = m->set->journal ? journal_find(m->set->journal, m->path) : NULL;

    return e && e->kind != JOURNAL_ABSENT ? e : NULL;
}

static bool is_as_stored(const struct change_view *host, const struct journal_entry *e) {
    uint64_t mtime = (uint64_t)host->st.st_mtim.tv_sec * 1000000000 + (uint64_t)host->st.st_mtim.tv_nsec;

    if (S_ISREG(host->st.st_mode))
        return e->kind == JOURNAL_FILE && e->size == (uint64_t)host->st.st_size && e->mtime_ns == mtime &&
               e->ino == host->st.st_ino;
    return !S_ISLNK(host->st.st_mode) || (e->kind == JOURNAL_LINK && str_eq(e->link, host->link));
}

/* A folder's ctime changes with its entries, which are judged one by one. */
static bool host_touched(const struct change_maker *m, const struct change_view *host) {
    const struct journal_entry *e = base_of(m);

    if (!host->st.st_mode || S_ISDIR(host->st.st_mode))
        return false;
    return manifest_stamp_of(&host->st).ctime_ns >= m->rd->info.begun_ns || (e && !is_as_stored(host, e));
}

/* The version before the run, of a file that the host changed since: the journal's, else the host's. */
static int look_at_base(struct change_maker *m, const struct change_view *host, struct change_view *ret) {
    const struct journal_entry *e = base_of(m);
    int r;

    if (e) {
        r = view_of_entry(m->set->journal, e, ret);
        return r < 0 ? err_oom(m->err) : 0;
    }
    *ret = *host;
    ret->unknown = true;
    ret->link = host->link ? strdup(host->link) : NULL;
    return host->link && !ret->link ? err_oom(m->err) : 0;
}

static int remove_below(struct change_maker *m, int folder, const char *name, void *arg);

static int add_deleted(struct change_maker *m, const struct change_view *host) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT;
    bool touched = host_touched(m, host);
    struct change_found f = {.kind = CHANGE_DELETED, .old = host, .host_changed = touched};

    if (touched) {
        int r = look_at_base(m, host, &old);

        if (r < 0)
            return r;
        f.old = &old;
    }
    return maker_add(m, &f);
}

/* Everything below, then the folder itself; it stays on the host if something hidden is in there. */
static int add_deleted_tree(struct change_maker *m, int dir, const char *name, const struct change_view *host, bool *ret_stays) {
    bool stays = false;
    int r = S_ISDIR(host->st.st_mode) ? maker_each(m, dir, name, remove_below, &stays) : 0;

    *ret_stays |= stays;
    if (r < 0 || stays)
        return r;
    return add_deleted(m, host);
}

static int remove_below(struct change_maker *m, int folder, const char *name, void *arg) {
    CLEANUP(view_done) struct change_view host = CHANGE_VIEW_INIT;
    bool *ret_stays = arg;
    int r = view_look(folder, name, &host);

    if (r < 0)
        return maker_note(m, m->path, "could not be looked at", r);
    if (!host.st.st_mode)
        return 0;
    if (!maker_hides(m, S_ISDIR(host.st.st_mode)))
        return add_deleted_tree(m, folder, name, &host, ret_stays);
    *ret_stays = true;
    return 0;
}

/* In upper/ only, but the journal knows it: the host deleted it since. */
static int add_deleted_by_host(struct change_maker *m, const struct overlay_pair *p) {
    CLEANUP(view_done) struct change_view old = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_MODIFIED, .old = &old, .now = &p->up, .host_changed = true};
    int r = look_at_base(m, &p->host, &old);

    if (r == 0)
        r = maker_compare(m, &old, &p->up, &f.what);
    return r < 0 || f.what == 0 ? r : maker_add(m, &f);
}

static int add_without_host(struct change_maker *m, const struct overlay_pair *p) {
    struct change_found f = {.kind = CHANGE_ADDED, .now = &p->up, .hidden = p->hidden};
    bool known = !p->hidden && base_of(m);

    f.id.copied_up = !p->hidden && is_copied_up(&p->up);
    if (S_ISDIR(p->up.st.st_mode) && (known || f.id.copied_up)) /* is there because of what is in it */
        return 0;
    if (p->up.st.st_nlink > 1) /* the run gave what was copied up a second name, which may be this one */
        f.id.copied_up = false;
    return known ? add_deleted_by_host(m, p) : maker_add(m, &f);
}

static int add_with_host(struct change_maker *m, const struct overlay_pair *p) {
    CLEANUP(view_done) struct change_view base = CHANGE_VIEW_INIT;
    struct change_found f = {.kind = CHANGE_MODIFIED, .now = &p->up, .host_changed = host_touched(m, &p->host)};
    int r = f.host_changed ? look_at_base(m, &p->host, &base) : 0;

    if (r < 0)
        return r;
    f.old = f.host_changed ? &base : &p->host;
    r = maker_compare(m, base.entry ? &base : &p->host, &p->up, &f.what);
    if (r < 0 || f.what == 0)
        return r;
    f.id.copied_up = is_copied_up(&p->up);
    return maker_add(m, &f);
}

static int visit_upper(struct change_maker *m, int folder, const char *name, void *arg);

/* Only of an opaque folder: what the host has and upper/ has not. */
static int remove_if_gone(struct change_maker *m, int folder, const char *name, void *arg) {
    const int *up = arg;
    struct stat st;

    if (fstatat(*up, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (errno != ENOENT) /* a folder that its owner may not enter: nothing is known to be gone */
        return maker_note(m, m->path, "could not be looked at", -errno);
    return remove_below(m, folder, name, &(bool){false});
}

static int enter_folder(struct change_maker *m, int dir, const char *name, const struct overlay_pair *p,
                        const struct overlay_level *above) {
    CLEANUP(closep) int host = -1, up = -1;
    struct overlay_level in = {.opaque = above->opaque || has_mark(&p->up, "user.overlay.opaque", 'y')};
    int r;

    if (S_ISDIR(p->host.st.st_mode)) {
        host = openat(above->host, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (host < 0 && errno != ENOENT && errno != ENOTDIR)
            return maker_note(m, m->path, "could not be opened in the workspace", -errno);
    }
    in.host = host;
    r = maker_each(m, dir, name, visit_upper, &in);
    if (r < 0 || !in.opaque || host < 0)
        return r;
    up = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return up < 0 ? 0 : maker_each(m, host, ".", remove_if_gone, &up);
}

static int look_at_both(struct change_maker *m, int folder, const char *name, int host, struct overlay_pair *p) {
    int r = view_look(folder, name, &p->up);

    if (r < 0 || !p->up.st.st_mode)
        return r;
    p->hidden = maker_hides(m, S_ISDIR(p->up.st.st_mode));
    if (host < 0 || p->hidden)
        return 0;
    r = view_look(host, name, &p->host);
    if (r == 0 && is_whiteout(&p->up) && S_ISDIR(p->host.st.st_mode))
        p->hidden = maker_hides(m, true);
    return r;
}

static int visit_upper(struct change_maker *m, int folder, const char *name, void *arg) {
    CLEANUP(pair_done) struct overlay_pair p = {.up = CHANGE_VIEW_INIT, .host = CHANGE_VIEW_INIT};
    const struct overlay_level *level = arg;
    int r = look_at_both(m, folder, name, level->host, &p);

    if (r < 0)
        return maker_note(m, m->path, "could not be looked at", r);
    if (!p.up.st.st_mode)
        return 0;
    if (is_whiteout(&p.up))
        return p.hidden || !p.host.st.st_mode ? 0 : add_deleted_tree(m, level->host, name, &p.host, &(bool){false});
    r = p.host.st.st_mode ? add_with_host(m, &p) : add_without_host(m, &p);
    if (r < 0)
        return r;
    if (S_ISDIR(p.up.st.st_mode))
        return enter_folder(m, folder, name, &p, level);
    if (S_ISDIR(p.host.st.st_mode))
        return maker_each(m, level->host, name, remove_below, &(bool){false});
    return 0;
}

/* Copied up, but the host has nothing there: the run moved it there, or the host deleted it. In a user namespace overlayfs does
 * not say from where it was copied, so the second is certain only if no file of the host's can have been moved away. */
static void settle_copied_up(struct change_maker *m) {
    struct change *v = m->set->v;

    for (size_t i = 0; i < m->set->n; i++)
        if (S_ISREG(v[i].old_.mode) && (v[i].kind == CHANGE_DELETED || !m->ids[i].copied_up))
            return;
    for (size_t i = 0; i < m->set->n; i++)
        if (v[i].kind == CHANGE_ADDED && m->ids[i].copied_up) {
            v[i].kind = CHANGE_MODIFIED;
            v[i].host_changed = v[i].old_unknown = true;
        }
}

int change_make_overlay(struct change_maker *m) {
    struct overlay_level top = {.host = m->set->host_root};
    int r = maker_each(m, m->set->new_root, ".", visit_upper, &top);

    if (r == 0)
        settle_copied_up(m);
    return r;
}
