/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a tree. */
#include "workspace/copy/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/hide/ignore.h"

struct walk_state {
    const struct ignore *hidden;
    const struct walk_ops *ops;
    struct buf path;
    unsigned depth;
    struct err *err;
};

static void walk_done(struct walk_state *w) {
    buf_done(&w->path);
}

/* By descriptor, for fchmodat() follows a link that took the place of the file. /proc, for O_PATH knows no fchmod(). */
static int pry_open(const struct walk_entry *e, struct stat *ret) {
    CLEANUP(closep) int fd = openat(e->dir, e->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char proc[32];
    mode_t want;

    if (fd < 0 || fstat(fd, ret) < 0)
        return -errno;
    want = S_ISDIR(ret->st_mode) ? 0700 : S_ISREG(ret->st_mode) ? 0400 : 0;
    if ((ret->st_mode & want) == want || geteuid() == 0)
        return 0;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    if (chmod(proc, (ret->st_mode | want) & 0777) < 0 || fstat(fd, ret) < 0)
        return -errno;
    return 0;
}

static int walk_folder(struct walk_state *w, struct dir *d, const struct ignore_list *rules);

static int enter_folder(struct walk_state *w, struct walk_entry *e) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    size_t len = w->path.len;
    int r = dir_open_at(e->dir, e->name, &d);

    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) /* another thing by now */
        return w->ops->left ? w->ops->left(e, w->ops->arg, w->err) : 0;
    if (r == -EACCES && w->ops->closed)
        return w->ops->closed(e, w->ops->arg, w->err);
    if (r < 0)
        return place_err(w->err, r, "read the folder", e->path);
    if (w->depth == WALK_DEPTH_MAX)
        return err_set(w->err, -ELOOP, "the tree is deeper than %d folders", WALK_DEPTH_MAX);
    w->depth++;
    r = walk_folder(w, &d, w->hidden ? ignore_rules_in(w->hidden, e->path, len) : NULL);
    w->depth--;
    e->path = buf_str(&w->path); /* it may have moved */
    return r == 0 && w->ops->left ? w->ops->left(e, w->ops->arg, w->err) : r;
}

/* w->path is the entry's. */
static int visit_entry(struct walk_state *w, int dir, const char *name, const struct ignore_list *rules) {
    struct walk_entry e = {.dir = dir, .name = name, .path = buf_str(&w->path), .depth = w->depth};
    struct ignore_why why;
    int r = fstatat(dir, name, &e.st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;

    if (r == 0 && w->ops->pry && !S_ISLNK(e.st.st_mode))
        r = pry_open(&e, &e.st);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return place_err(w->err, r, "look at", e.path);
    if (rules && ignore_judge(rules, e.path, w->path.len, S_ISDIR(e.st.st_mode), &why) == IGNORE_EXCLUDED)
        return 0;
    r = w->ops->found(&e, w->ops->arg, w->err);
    if (r < 0 || r == WALK_SKIP || !S_ISDIR(e.st.st_mode))
        return r < 0 ? r : 0;
    return enter_folder(w, &e);
}

static int visit_name(struct walk_state *w, int dir, const char *name, const struct ignore_list *rules) {
    size_t before = w->path.len;
    int r;

    if (before)
        buf_addc(&w->path, '/');
    buf_adds(&w->path, name);
    if (!buf_ok(&w->path))
        return err_set(w->err, -ENAMETOOLONG, "the tree has a path of more than %d bytes", WALK_PATH_MAX);
    r = visit_entry(w, dir, name, rules);
    w->path.len = before;
    w->path.data[before] = 0;
    return r;
}

static int walk_folder(struct walk_state *w, struct dir *d, const struct ignore_list *rules) {
    const struct dirent *e;
    int r = 0;

    while (r >= 0 && (e = dir_next(d)))
        r = visit_name(w, d->fd, e->d_name, rules);
    if (r < 0 || d->error == 0)
        return r;
    return place_err(w->err, d->error, "read the folder", w->path.len ? buf_str(&w->path) : ".");
}

int walk_tree(int root, const struct ignore *hidden, const struct walk_ops *ops, struct err *err) {
    CLEANUP(walk_done) struct walk_state w = {.hidden = hidden, .ops = ops, .path = BUF_INIT(WALK_PATH_MAX), .err = err};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int r = dir_open_at(root, ".", &d);

    return r < 0 ? err_sys(err, r, "open the tree") : walk_folder(&w, &d, hidden ? ignore_rules_in(hidden, "", 0) : NULL);
}
