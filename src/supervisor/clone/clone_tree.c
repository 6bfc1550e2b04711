/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the walker goes through the source; to[] holds the folders of the copy from its root to that place. No other process writes in the copy. */
#include "supervisor/clone/clone_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/copy/transfer.h"
#include "workspace/copy/walk.h"
#include "workspace/copy/xattrs.h"

struct cloner {
    struct clone_tree *c;
    int to[WALK_DEPTH_MAX + 1];
};

static void cloner_done(struct cloner *k) {
    for (size_t i = 1; i < ARRAY_LEN(k->to); i++)
        closep(&k->to[i]);
}

static int copy_attributes(int from, int to) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(XATTRS_MAX);
    int r = xattrs_read(from, &b);

    return r < 0 || b.len == 0 ? r : xattrs_write(to, b.data, b.len);
}

/* Owner before mode, for a change of owner drops bits; the time last. */
static int finish_file(int to, const struct stat *st, struct stat *ret) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};

    if (geteuid() == 0 && fchown(to, st->st_uid, st->st_gid) < 0)
        return -errno;
    return fchmod(to, st->st_mode & 01777) < 0 || futimens(to, times) < 0 || fstat(to, ret) < 0 ? -errno : 0;
}

static void tell_copied(const struct cloner *k, const char *path, const struct stat *from, const struct stat *to) {
    if (k->c->copied)
        k->c->copied(path, from, to, k->c->arg);
}

static int copy_into(int from, int to, const struct stat *st, uint64_t *ret_bytes, struct stat *ret) {
    int r = transfer_content(from, to, (uint64_t)st->st_size, ret_bytes);

    r = r < 0 ? r : copy_attributes(from, to);
    return r < 0 ? r : finish_file(to, st, ret);
}

static int clone_file(struct cloner *k, const struct walk_entry *e, struct err *err) {
    struct stat st, made;
    CLEANUP(closep) int from = transfer_open(e->dir, e->name, &st);
    CLEANUP(closep) int to = -1;
    uint64_t bytes = 0;
    int r;

    if (from == -ENOENT || from == -EINVAL || from == -ELOOP) { /* another thing by now */
        k->c->left_out++;
        return 0;
    }
    if (from < 0)
        return place_err(err, from, "read", e->path);
    to = openat(k->to[e->depth], e->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = to < 0 ? -errno : copy_into(from, to, &st, &bytes, &made);
    if (r < 0)
        return place_err(err, r, "copy", e->path);
    tell_copied(k, e->path, &st, &made);
    k->c->files++;
    k->c->bytes += bytes;
    return k->c->tell ? k->c->tell(k->c->files, k->c->bytes, k->c->tell_arg, err) : 0;
}

static int own_name(int dir, const char *name, const struct stat *st, struct stat *ret) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};

    if (geteuid() == 0 && fchownat(dir, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 || fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int copy_link(struct cloner *k, const struct walk_entry *e, struct err *err) {
    int to = k->to[e->depth], r = 0;
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);
    struct stat made;

    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : place_err(err, -errno, "read", e->path);
    target[n] = 0;
    r = symlinkat(target, to, e->name) < 0 ? -errno : own_name(to, e->name, &e->st, &made);
    if (r < 0)
        return place_err(err, r, "copy", e->path);
    tell_copied(k, e->path, &e->st, &made);
    return 0;
}

static int copy_special(struct cloner *k, const struct walk_entry *e, struct err *err) {
    if (!k->c->whiteouts || !S_ISCHR(e->st.st_mode) || e->st.st_rdev != 0) {
        k->c->left_out++;
        return 0;
    }
    /* Linux lets every user make this one device since 5.8; before, only root has overlay mode here. */
    return mknodat(k->to[e->depth], e->name, S_IFCHR, 0) < 0 ? place_err(err, -errno, "copy", e->path) : 0;
}

static int clone_into(struct cloner *k, const struct walk_entry *e, struct err *err) {
    int to = k->to[e->depth], *next = &k->to[e->depth + 1];

    closep(next);
    if (mkdirat(to, e->name, 0700) < 0)
        return place_err(err, -errno, "copy the folder", e->path);
    *next = openat(to, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *next < 0 ? place_err(err, -errno, "copy the folder", e->path) : WALK_ON;
}

static int clone_entry(const struct walk_entry *e, void *arg, struct err *err) {
    struct cloner *k = arg;

    if (k->c->leave && str_eq(e->path, k->c->leave))
        return WALK_SKIP;
    switch (e->st.st_mode & S_IFMT) {
    case S_IFDIR:
        return clone_into(k, e, err);
    case S_IFREG:
        return clone_file(k, e, err);
    case S_IFLNK:
        return copy_link(k, e, err);
    default:
        return copy_special(k, e, err);
    }
}

static int finish_folder(int from, int to, const struct stat *st, struct stat *ret) {
    int r = from < 0 ? from : copy_attributes(from, to);

    return r < 0 ? r : finish_file(to, st, ret);
}

static int left(const struct walk_entry *e, void *arg, struct err *err) {
    struct cloner *k = arg;
    CLEANUP(closep) int from = openat(e->dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat made;
    int r = finish_folder(from < 0 ? -errno : from, k->to[e->depth + 1], &e->st, &made);

    closep(&k->to[e->depth + 1]);
    if (r < 0)
        return place_err(err, r, "copy the folder", e->path);
    tell_copied(k, e->path, &e->st, &made);
    return 0;
}

int clone_tree_make(struct clone_tree *c, struct err *err) {
    CLEANUP(cloner_done) struct cloner k = {.c = c};
    const struct walk_ops ops = {.found = clone_entry, .left = left, .arg = &k, .pry = true};
    struct stat st, made;
    int r;

    for (size_t i = 1; i < ARRAY_LEN(k.to); i++)
        k.to[i] = -1;
    k.to[0] = c->to;
    r = walk_tree(c->from, NULL, &ops, err);
    if (r < 0)
        return r;
    r = fstat(c->from, &st) < 0 ? -errno : finish_folder(c->from, c->to, &st, &made);
    return r < 0 ? err_sys(err, r, "copy the folder") : 0;
}
