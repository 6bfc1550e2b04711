/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees that a sandbox filled, and the parts of a run's folder: copied, or moved. The walker goes through the source; to[] holds the
 * folders of the copy from its root to that place. No other process writes in the copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/clone/clone_priv.h"
#include "workspace/copy/manifest.h"
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

/* What is not the content. from < 0: why it cannot be read. */
static int copy_rest(int from, int to, const struct stat *st, struct stat *ret) {
    int r = from < 0 ? from : xattrs_copy(from, to);

    return r < 0 ? r : finish_file(to, st, ret);
}

static int copy_regular(struct cloner *k, const struct walk_entry *e, struct err *err) {
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
    r = to < 0 ? -errno : transfer_content(from, to, (uint64_t)st.st_size, &bytes);
    r = r < 0 ? r : copy_rest(from, to, &st, &made);
    if (r < 0)
        return place_err(err, r, "copy", e->path);
    tell_copied(k, e->path, &st, &made);
    k->c->files++;
    k->c->bytes += bytes;
    return k->c->report ? k->c->report(k->c->files, k->c->bytes, k->c->report_arg, err) : 0;
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
        return copy_regular(k, e, err);
    case S_IFLNK:
        return copy_link(k, e, err);
    default:
        return copy_special(k, e, err);
    }
}

static int left(const struct walk_entry *e, void *arg, struct err *err) {
    struct cloner *k = arg;
    CLEANUP(closep) int from = openat(e->dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat made;
    int r = copy_rest(from < 0 ? -errno : from, k->to[e->depth + 1], &e->st, &made);

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
    r = fstat(c->from, &st) < 0 ? -errno : copy_rest(c->from, c->to, &st, &made);
    return r < 0 ? err_sys(err, r, "copy the folder") : 0;
}

int clone_folder(int from, int to, const char *name, struct clone_tree *how, struct err *err) {
    CLEANUP(closep) int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), target = -1;
    int r;

    if (source < 0)
        return errno == ENOENT ? 0 : err_sys(err, -errno, "open '%s'", name);
    if (mkdirat(to, name, 0700) < 0)
        return err_sys(err, -errno, "make '%s'", name);
    target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0)
        return err_sys(err, -errno, "make '%s'", name);
    how->from = source;
    how->to = target;
    r = clone_tree_make(how, err);
    how->from = how->to = -1;
    return r < 0 ? err_ctx(err, r, "%s", name) : 0;
}

static int clone_file(int from, int to, const char *name, struct err *err) {
    struct stat st;
    CLEANUP(closep) int source = transfer_open(from, name, &st), target = -1;
    uint64_t bytes;
    int r;

    if (source < 0)
        return source == -ENOENT ? 0 : err_sys(err, source, "open '%s'", name);
    target = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = target < 0 ? -errno : transfer_content(source, target, (uint64_t)st.st_size, &bytes);
    return r < 0 ? err_sys(err, r, "copy '%s'", name) : 0;
}

/*
 * A manifest knows the files of its copy by inode and ctime, which no copy of the copy has. A file that is as the manifest says gets
 * the stamp of its new self; one that was changed inside keeps a stamp that no longer fits, and so stays changed.
 */
struct stamping {
    struct manifest *m;
    int r;
};

static void stamp(const char *path, const struct stat *from, const struct stat *to, void *arg) {
    struct stamping *s = arg;
    const struct manifest_entry *e = manifest_find(s->m, path);
    struct manifest_stamp was = manifest_stamp_of(from), now = manifest_stamp_of(to), host;

    if (s->r < 0 || !e || !e->copy.mode || !e->copy.ctime_ns || !manifest_same(&e->copy, &was))
        return;
    host = e->host;
    s->r = manifest_set(s->m, path, &host, &now, NULL);
}

static int clone_copy(int from, int to, struct clone_tree *count, struct err *err) {
    CLEANUP(manifest_freep) struct manifest *m = NULL;
    struct stamping s = {0};
    int r = manifest_load(from, "manifest", &m, err);

    if (r == -ENOENT)
        return err_set(err, r, "the copy of the workspace is not finished yet; try again when the sandbox has started");
    if (r < 0)
        return r;
    s.m = m;
    count->copied = stamp;
    count->arg = &s;
    r = clone_folder(from, to, "tree", count, err);
    count->copied = NULL;
    r = r < 0 ? r : s.r < 0 ? err_oom(err) : manifest_save(m, to, "manifest", err);
    clock_pass(clock_coarse()); /* a change after this has another ctime than the stamps */
    return r;
}

/* Inodes and their ctimes stay, so the stamps of a manifest do, too. */
int clone_move_parts(int from, int to, struct err *err) {
    static const char *const all[] = {"upper", "tree", "manifest", "journal", "base"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(all); i++)
        if (renameat(from, all[i], to, all[i]) < 0 && errno != ENOENT)
            r = err_sys(err, -errno, "move '%s'", all[i]);
    return r;
}

/* Gone: an earlier try moved it, and then lost the race for its name. */
int clone_move_folder(int from, int to, const char *name, struct err *err) {
    if (renameat(from, name, to, name) == 0)
        return 0;
    return errno == ENOENT ? err_set(err, -ESTALE, "the name of the fork was taken at this moment; try again")
                           : err_sys(err, -errno, "move '%s'", name);
}

int clone_run_parts(int from, int to, enum workspace_mode mode, struct clone_tree *count, struct err *err) {
    int r = 0;

    if (mode != WORKSPACE_SYNC && mode != WORKSPACE_OVERLAY)
        return 0;
    count->whiteouts = mode == WORKSPACE_OVERLAY;
    r = mode == WORKSPACE_SYNC ? clone_copy(from, to, count, err) : clone_folder(from, to, "upper", count, err);
    count->whiteouts = false;
    r = r < 0 ? r : clone_file(from, to, "journal", err);
    return r < 0 ? r : clone_folder(from, to, "base", count, err);
}
