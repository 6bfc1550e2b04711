/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"
#include "workspace/change/change_priv.h"
#include "workspace/hide/ignore.h"

enum { NOTES_MAX = 100 };

void maker_done(struct change_maker *m) {
    free(m->ids);
}

static int grow(struct change_maker *m) {
    size_t cap = m->set->cap ? 2 * m->set->cap : 64;
    struct change *v;
    struct change_id *ids;

    if (m->set->n >= CHANGE_MAX)
        return err_set(m->err, -E2BIG, "the run changed more than %d files", CHANGE_MAX);
    if (m->set->n < m->set->cap)
        return 0;
    v = reallocarray(m->set->v, cap, sizeof *v);
    if (!v)
        return err_oom(m->err);
    m->set->v = v;
    ids = reallocarray(m->ids, cap, sizeof *ids);
    if (!ids)
        return err_oom(m->err);
    m->ids = ids;
    m->set->cap = cap;
    return 0;
}

static int fill_side(const struct change_view *v, struct change_side *ret) {
    if (!v)
        return 0;
    *ret = (struct change_side){.mode = v->st.st_mode};
    if (S_ISREG(v->st.st_mode))
        ret->size = (uint64_t)v->st.st_size;
    if (v->link && !(ret->link = strdup(v->link)))
        return -ENOMEM;
    return 0;
}

/* What is said of a thing that is on one side only. */
static unsigned what_of(const struct change_view *v) {
    return S_ISREG(v->st.st_mode) ? CHANGE_CONTENT : S_ISLNK(v->st.st_mode) ? CHANGE_LINK : 0;
}

int maker_add(struct change_maker *m, const struct change_found *f) {
    struct change c = {.kind = f->kind, .what = f->what, .hidden = f->hidden, .host_changed = f->host_changed};
    int r = grow(m);

    if (r < 0)
        return r;
    if (f->kind != CHANGE_MODIFIED)
        c.what = what_of(f->kind == CHANGE_ADDED ? f->now : f->old);
    c.old_unknown = f->old && f->old->unknown;
    c.path = strdup(m->path);
    if (!c.path || fill_side(f->old, &c.old_) < 0 || fill_side(f->now, &c.new_) < 0) {
        change_done(&c);
        return err_oom(m->err);
    }
    m->ids[m->set->n] = f->id;
    m->set->v[m->set->n++] = c;
    return 0;
}

int maker_note(struct change_maker *m, const char *path, const char *what, int r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * PATH_MAX + 256);

    if (m->set->notes.len > NOTES_MAX)
        return 0;
    if (m->set->notes.len == NOTES_MAX)
        return strv_add(&m->set->notes, "and more that could not be looked at") < 0 ? err_oom(m->err) : 0;
    buf_addc(&b, '\'');
    buf_add_printable(&b, path[0] ? path : ".");
    buf_addf(&b, "' %s", what);
    if (r < 0)
        buf_addf(&b, ": %s", strerror(-r));
    if (!buf_ok(&b) || strv_add(&m->set->notes, buf_str(&b)) < 0)
        return err_oom(m->err);
    return 0;
}

bool maker_hides(const struct change_maker *m, bool is_dir) {
    return m->hidden && ignore_match(m->hidden, m->path, is_dir) == IGNORE_EXCLUDED;
}

int maker_compare(struct change_maker *m, const struct change_view *old, const struct change_view *now, unsigned *ret_what) {
    int r = view_compare(old, now, m->set->journal, ret_what);

    if (r < 0)
        return err_oom(m->err);
    return r ? maker_note(m, m->path, "could not be read and counts as changed", 0) : 0;
}

bool maker_set_path(struct change_maker *m, const char *path) {
    size_t len = strlen(path);

    if (len >= sizeof m->path)
        return false;
    memcpy(m->path, path, len + 1);
    m->path_len = len;
    return true;
}

static bool push(struct change_maker *m, const char *name) {
    size_t len = strlen(name), slash = m->path_len > 0;

    if (m->path_len + slash + len >= sizeof m->path)
        return false;
    if (slash)
        m->path[m->path_len] = '/';
    memcpy(m->path + m->path_len + slash, name, len + 1);
    m->path_len += slash + len;
    return true;
}

static int visit_all(struct change_maker *m, struct dir *d, maker_visit_fn *visit, void *arg) {
    size_t len = m->path_len;
    const struct dirent *e;
    int r = 0;

    while (r == 0 && (e = dir_next(d))) {
        if (!push(m, e->d_name)) {
            r = maker_note(m, m->path, "has paths in it that are too long to be looked at", 0);
            continue;
        }
        r = visit(m, d->fd, e->d_name, arg);
        m->path_len = len;
        m->path[len] = 0;
    }
    return r == 0 && d->error ? maker_note(m, m->path, "could not be listed", d->error) : r;
}

int maker_each(struct change_maker *m, int dir, const char *name, maker_visit_fn *visit, void *arg) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int r;

    if (m->depth >= CHANGE_DEPTH_MAX)
        return maker_note(m, m->path, "is too deep to be looked at", 0);
    r = dir_open_at(dir, name, &d);
    if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
        return err_sys(m->err, r, "list the changes of the run");
    if (r < 0)
        return r == -ENOENT ? 0 : maker_note(m, m->path, "could not be listed", r);
    m->depth++;
    r = visit_all(m, &d, visit, arg);
    m->depth--;
    return r;
}
