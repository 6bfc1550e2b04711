/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at one version of a file, opens it, compares two. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/change/change_priv.h"
#include "workspace/copy/same.h"
#include "workspace/copy/xattrs.h"
#include "workspace/hide/ignore.h"

/* Larger files of equal size are called different without reading them: by touching a disk image of the host's, the run could
 * make every look at its changes take minutes. */
#define COMPARE_MAX ((uint64_t)4 << 30)

void view_done(struct change_view *v) {
    free(v->link);
    *v = (struct change_view)CHANGE_VIEW_INIT;
}

static int look_here(int dir, const char *name, struct change_view *v) {
    char target[PATH_MAX];
    ssize_t n;

    if (fstatat(dir, name, &v->st, AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH)) < 0)
        return -errno;
    if (!S_ISLNK(v->st.st_mode))
        return 0;
    n = readlinkat(dir, name, target, sizeof target - 1);
    if (n < 0)
        return -errno;
    v->link = strndup(target, (size_t)n);
    return v->link ? 0 : -ENOMEM;
}

int view_look(int dir, const char *path, struct change_view *ret) {
    CLEANUP(view_done) struct change_view v = {.dir = dir, .name = path};
    bool deep = strchr(path, '/');
    CLEANUP(closep) int fd = deep ? safepath_open(dir, path, O_PATH) : -1;
    int r = !deep ? look_here(dir, path, &v) : fd < 0 ? fd : look_here(fd, "", &v);

    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
        *ret = (struct change_view)CHANGE_VIEW_INIT;
        return 0;
    }
    if (r == -EINVAL) /* a link that is none any more */
        return -ESTALE;
    if (r < 0)
        return r;
    *ret = v;
    v.link = NULL;
    return 0;
}

int view_of_entry(const struct journal *j, const struct journal_entry *e, struct change_view *ret) {
    static const mode_t types[] = {
        [JOURNAL_ABSENT] = 0,    [JOURNAL_FILE] = S_IFREG,  [JOURNAL_LINK] = S_IFLNK,
        [JOURNAL_DIR] = S_IFDIR, [JOURNAL_OTHER] = S_IFIFO, /* which one is not known */
    };
    /* A number is not enough: a hard link may have been written to since. */
    struct change_view v = {.dir = -1, .entry = e, .unknown = e->kind == JOURNAL_FILE && !journal_has(j, e)};

    v.st.st_dev = (dev_t)e->dev;
    v.st.st_ino = (ino_t)e->ino;
    v.st.st_mode = types[e->kind] ? types[e->kind] | (e->mode & 07777) : 0;
    v.st.st_size = e->kind == JOURNAL_FILE ? (off_t)e->size : 0;
    if (e->kind == JOURNAL_LINK && !(v.link = strdup(e->link ? e->link : "")))
        return -ENOMEM;
    *ret = v;
    return 0;
}

int view_open(const struct change_view *v, const struct journal *j) {
    CLEANUP(closep) int fd = -1;
    struct stat st;

    if (v->unknown)
        return -ENODATA;
    if (v->entry) {
        fd = journal_blob(j, v->entry);
        return fd == -ENOENT ? -ENODATA : TAKE_FD(fd);
    }
    if (!S_ISREG(v->st.st_mode) && !S_ISDIR(v->st.st_mode))
        return -ENOENT;
    /* A FIFO may have taken its place: that must not block. */
    fd = safepath_open(v->dir, v->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | (S_ISDIR(v->st.st_mode) ? O_DIRECTORY : 0));
    if (fd < 0)
        return TAKE_FD(fd);
    if (fstat(fd, &st) < 0)
        return -errno;
    return (st.st_mode & S_IFMT) == (v->st.st_mode & S_IFMT) ? TAKE_FD(fd) : -ESTALE;
}

static int read_xattrs(const struct change_view *v, int fd, struct buf *ret) {
    if (!v->entry)
        return xattrs_read_plain(fd, ret);
    xattrs_add_plain(ret, v->entry->xattrs, v->entry->xattrs ? v->entry->xattrs_len : 0);
    return buf_ok(ret) ? 0 : -ENOMEM;
}

static int xattrs_equal(const struct change_view *old, int old_fd, const struct change_view *now, int now_fd) {
    CLEANUP(buf_done) struct buf a = BUF_INIT(XATTRS_MAX), b = BUF_INIT(XATTRS_MAX);
    int r = read_xattrs(old, old_fd, &a);

    if (r == 0)
        r = read_xattrs(now, now_fd, &b);
    if (r < 0)
        return r;
    return a.len == b.len && memcmp(buf_str(&a), buf_str(&b), a.len) == 0;
}

/* Small files, as most are, are compared where the journal has them. */
static int same_as_entry(const struct journal *j, const struct journal_entry *e, int fd) {
    CLEANUP(closep) int stored = -1;
    int r = journal_same(j, e, fd);

    if (r != -EAGAIN)
        return r;
    stored = journal_blob(j, e);
    return stored == -ENOENT ? 0 : stored < 0 ? stored : same_content(stored, fd, COMPARE_MAX);
}

/* Files and folders, both of one type; adds to *what. */
static int compare_open(const struct change_view *old, const struct change_view *now, const struct journal *j, unsigned *what) {
    bool is_file = S_ISREG(now->st.st_mode);
    CLEANUP(closep) int b = view_open(now, j);
    CLEANUP(closep) int a = old->unknown || old->entry ? -ENODATA : view_open(old, j);
    int r;

    if (is_file) {
        r = old->unknown || b < 0 ? 0
            : old->entry          ? same_as_entry(j, old->entry, b)
            : a >= 0              ? same_content(a, b, COMPARE_MAX)
                                  : 0;
        if (r <= 0)
            *what |= CHANGE_CONTENT;
        if (r < 0)
            return 1;
    }
    if (b < 0 || (a < 0 && a != -ENODATA))
        return 1;
    if (!old->entry && a < 0)
        return 0;
    r = xattrs_equal(old, a, now, b);
    if (r <= 0)
        *what |= CHANGE_XATTR;
    return r == -ENOMEM ? r : r < 0;
}

int view_compare(const struct change_view *old, const struct change_view *now, const struct journal *j, unsigned *ret_what) {
    mode_t type = now->st.st_mode & S_IFMT;
    unsigned what = 0;
    int r = 0;

    if ((old->st.st_mode & S_IFMT) != type) {
        *ret_what = CHANGE_TYPE;
        return 0;
    }
    if (type == S_IFLNK) {
        *ret_what = old->link && str_eq(old->link, now->link) ? 0 : CHANGE_LINK;
        return 0;
    }
    if (((old->st.st_mode ^ now->st.st_mode) & 07777) != 0)
        what = CHANGE_MODE;
    if (type == S_IFREG || type == S_IFDIR)
        r = compare_open(old, now, j, &what);
    else if (!old->entry && old->st.st_rdev != now->st.st_rdev)
        what |= CHANGE_TYPE;
    if (r >= 0)
        *ret_what = what;
    return r;
}

/* -- collecting changes --------------------------------------------------------------------------------------------------- */

enum { NOTES_MAX = 100 };

void maker_done(struct change_maker *m) {
    if (m->folder.fd > 0)
        close(m->folder.fd);
    free(m->ids);
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

int maker_add(struct change_maker *m, const struct change_found *f) {
    struct change c = {.kind = f->kind, .what = f->what, .hidden = f->hidden, .host_changed = f->host_changed};
    mode_t type = (f->kind == CHANGE_DELETED ? f->old : f->now)->st.st_mode;

    if (m->set->n >= CHANGE_MAX)
        return err_set(m->err, -E2BIG, "the run changed more than %d files", CHANGE_MAX);
    if (VEC_ROOM(m->set->v, m->set->n) < 0 || VEC_ROOM(m->ids, m->set->n) < 0)
        return err_oom(m->err);
    if (f->kind != CHANGE_MODIFIED) /* it is on one side only */
        c.what = S_ISREG(type) ? CHANGE_CONTENT : S_ISLNK(type) ? CHANGE_LINK : 0;
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

bool maker_hides(struct change_maker *m, bool is_dir) {
    return m->hidden && ignore_match_near(m->hidden, &m->near, m->path, is_dir) == IGNORE_EXCLUDED;
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

static bool push_name(struct change_maker *m, const char *name) {
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
        if (!push_name(m, e->d_name)) {
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
