/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/copy/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
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

static void closedirp(DIR **d) {
    if (*d)
        closedir(*d);
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

static int look(struct walk_state *w, struct walk_entry *e) {
    if (fstatat(e->dir, e->name, &e->st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return w->ops->pry && !S_ISLNK(e->st.st_mode) ? pry_open(e, &e->st) : 0;
}

static int walk_folder(struct walk_state *w, DIR *d, const struct ignore_list *rules);

static int enter(struct walk_state *w, struct walk_entry *e) {
    int fd = openat(e->dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    CLEANUP(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);
    size_t len = w->path.len;
    int r;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) /* another thing by now */
        return w->ops->left ? w->ops->left(e, w->ops->arg, w->err) : 0;
    if (fd < 0 && errno == EACCES && w->ops->closed)
        return w->ops->closed(e, w->ops->arg, w->err);
    if (!d) {
        r = place_err(w->err, -errno, "read the folder", e->path);
        closep(&fd);
        return r;
    }
    if (w->depth == WALK_DEPTH_MAX)
        return err_set(w->err, -ELOOP, "the tree is deeper than %d folders", WALK_DEPTH_MAX);
    w->depth++;
    r = walk_folder(w, d, w->hidden ? ignore_rules_in(w->hidden, e->path, len) : NULL);
    w->depth--;
    e->path = buf_str(&w->path); /* it may have moved */
    return r == 0 && w->ops->left ? w->ops->left(e, w->ops->arg, w->err) : r;
}

/* w->path is the entry's. */
static int visit(struct walk_state *w, int dir, const char *name, const struct ignore_list *rules) {
    struct walk_entry e = {.dir = dir, .name = name, .path = buf_str(&w->path), .depth = w->depth};
    struct ignore_why why;
    int r = look(w, &e);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return place_err(w->err, r, "look at", e.path);
    if (rules && ignore_judge(rules, e.path, w->path.len, S_ISDIR(e.st.st_mode), &why) == IGNORE_EXCLUDED)
        return 0;
    r = w->ops->found(&e, w->ops->arg, w->err);
    if (r < 0 || r == WALK_SKIP || !S_ISDIR(e.st.st_mode))
        return r < 0 ? r : 0;
    return enter(w, &e);
}

static int visit_name(struct walk_state *w, int dir, const char *name, const struct ignore_list *rules) {
    size_t before = w->path.len;
    int r;

    if (before)
        buf_addc(&w->path, '/');
    buf_adds(&w->path, name);
    if (!buf_ok(&w->path))
        return err_set(w->err, -ENAMETOOLONG, "the tree has a path of more than %d bytes", WALK_PATH_MAX);
    r = visit(w, dir, name, rules);
    w->path.len = before;
    w->path.data[before] = 0;
    return r;
}

static int walk_folder(struct walk_state *w, DIR *d, const struct ignore_list *rules) {
    for (;;) {
        const struct dirent *e;
        int r;

        errno = 0;
        e = readdir(d);
        if (!e)
            return errno ? place_err(w->err, -errno, "read the folder", w->path.len ? buf_str(&w->path) : ".") : 0;
        if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
            continue;
        r = visit_name(w, dirfd(d), e->d_name, rules);
        if (r < 0)
            return r;
    }
}

int walk_tree(int root, const struct ignore *hidden, const struct walk_ops *ops, struct err *err) {
    CLEANUP(walk_done) struct walk_state w = {.hidden = hidden, .ops = ops, .path = BUF_INIT(WALK_PATH_MAX), .err = err};
    int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closedirp) DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        int r = err_sys(err, -errno, "open the tree");

        closep(&fd);
        return r;
    }
    return walk_folder(&w, d, hidden ? ignore_rules_in(hidden, "", 0) : NULL);
}
