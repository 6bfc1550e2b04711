/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation: the walker goes through the source, to[] holds the folders of the copy on the way to where it is. A file
 * of the copy gets its time as the last thing, so that a later try can tell a whole one (same size and time) from one that
 * a crash cut off. Nothing else writes in the copy: no sandbox has seen it yet.
 */
#include "workspace/copy/copytree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/str.h"
#include "os/clock.h"
#include "os/copy.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/copy/walk.h"
#include "workspace/copy/xattrs.h"

enum { TRIES = 4, TELL_EVERY = 64, COUNT_FROM = 512 /* files: before that progress has no total */ };

struct copier {
    const struct copytree *c;
    struct manifest *m;
    int to[WALK_DEPTH_MAX + 1];
    uint64_t files, bytes, total;
    bool counted, owners; /* owners: we are root, and files keep theirs */
};

static void copier_done(struct copier *c) {
    for (size_t i = 1; i < ARRAY_LEN(c->to); i++)
        closep(&c->to[i]);
}

static int note_odd(struct copier *c, const char *path, const char *what, struct err *err) {
    return c->c->notes ? place_note(c->c->notes, path, what, err) : 0;
}

/* A copy that silently lacks files would be taken for the workspace. */
static int refuse_closed(const struct walk_entry *e, UNUSED void *arg, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * WALK_PATH_MAX);

    buf_add_printable(&b, e->path);
    return err_set(err, -EACCES, "'%.700s' cannot be read; make it readable, or hide it in .sandboxignore", buf_str(&b));
}

static int count_one(const struct walk_entry *e, void *arg, UNUSED struct err *err) {
    struct copier *c = arg;

    c->total += S_ISREG(e->st.st_mode) || S_ISLNK(e->st.st_mode);
    return WALK_ON;
}

static int count_all(struct copier *c, struct err *err) {
    const struct walk_ops counting = {.found = count_one, .closed = refuse_closed, .arg = c};

    c->counted = true;
    return walk_tree(c->c->from, c->c->hidden, &counting, err);
}

static int count_file(struct copier *c, uint64_t bytes, struct err *err) {
    const struct progress *p = c->c->progress;
    int r = 0;

    c->files++;
    c->bytes += bytes;
    if (!p || !p->report)
        return 0;
    if (c->files >= COUNT_FROM && !c->counted)
        r = count_all(c, err);
    if (r == 0 && c->counted && (c->files % TELL_EVERY == 0 || c->files == c->total))
        p->report(c->files, c->bytes, c->total, p->arg);
    return r;
}

/* A file that was changed in this tick of the clock could be changed once more without a trace in its ctime: that passes. */
static int copy_once(int from, int to, struct stat *ret_st, bool *ret_settled) {
    struct manifest_stamp was, is;
    struct stat before;
    uint64_t now;
    bool written;
    int r;

    now = clock_coarse();
    if (fstat(from, &before) < 0)
        return -errno;
    if (manifest_stamp_racy(&before, now).ctime_ns == 0) {
        clock_pass(clock_coarse());
        now = clock_coarse();
        if (fstat(from, &before) < 0)
            return -errno;
    }
    written = place_is_written(from);
    r = copy_content(from, to, INT64_MAX, NULL);
    if (r == 0)
        r = xattrs_copy(from, to);
    if (r < 0)
        return r;
    if (fstat(from, ret_st) < 0)
        return -errno;
    *ret_settled = !written;
    was = manifest_stamp_of(&before);
    is = manifest_stamp_of(ret_st);
    return !manifest_same(&was, &is) || manifest_stamp_racy(ret_st, now).ctime_ns == 0 ? -EAGAIN : 0;
}

/* Looking costs a tenth of a change that changes nothing. */
static int finish_entry(const struct copier *c, int to, const struct stat *st) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
    struct stat made;

    if (fstat(to, &made) < 0 ||
        (c->owners && (made.st_uid != st->st_uid || made.st_gid != st->st_gid) && fchown(to, st->st_uid, st->st_gid) < 0))
        return -errno;
    if ((made.st_mode & 07777) != (st->st_mode & 0777) && fchmod(to, st->st_mode & 0777) < 0)
        return -errno;
    return futimens(to, times) < 0 ? -errno : 0;
}

/* One that was being written all the time is taken as it was read last. What a process has open for writing, a log or a data
 * base, may not be whole either. The next sync looks at both again. */
static int copy_into(struct copier *c, const struct walk_entry *e, int from, int to, struct err *err) {
    struct manifest_stamp host, copy;
    bool settled = false;
    struct stat st, made;
    int r = -EAGAIN;

    for (int i = 0; r == -EAGAIN && i < TRIES; i++)
        r = i > 0 && ftruncate(to, 0) < 0 ? -errno : copy_once(from, to, &st, &settled);
    if (r < 0 && r != -EAGAIN)
        return place_err(err, r, "copy", e->path);
    host = manifest_stamp_of(&st);
    if (r == -EAGAIN || !settled)
        host.ctime_ns = 0;
    if (r == -EAGAIN)
        r = note_odd(c, e->path, "was being written while it was copied; the copy may be half of it", err);
    if (r < 0)
        return r;
    r = finish_entry(c, to, &st);
    if (r < 0 || fstat(to, &made) < 0)
        return place_err(err, r < 0 ? r : -errno, "copy", e->path);
    copy = manifest_stamp_of(&made);
    r = count_file(c, copy.size, err);
    return r < 0 ? r : manifest_set(c->m, e->path, &host, &copy, err);
}

/* From an earlier try, whole: it has the time of the source, which is set last. */
static bool is_there(struct copier *c, const struct walk_entry *e, struct stat *ret) {
    const struct stat *st = &e->st;

    return manifest_stamp_racy(st, clock_coarse()).ctime_ns != 0 &&
           fstatat(c->to[e->depth], e->name, ret, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(ret->st_mode) &&
           ret->st_size == st->st_size && ret->st_mtim.tv_sec == st->st_mtim.tv_sec &&
           ret->st_mtim.tv_nsec == st->st_mtim.tv_nsec && (ret->st_mode & 07777) == (st->st_mode & 0777) &&
           (!c->owners || (ret->st_uid == st->st_uid && ret->st_gid == st->st_gid));
}

/* Regular when it was looked at; it may be a FIFO or a link by now. -ENOENT: gone. */
static int open_source(const struct walk_entry *e) {
    CLEANUP(closep) int fd = openat(e->dir, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return errno == ELOOP || errno == ENXIO ? -ENOENT : -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -ENOENT;
}

/* Of an earlier try, or a name that the walk came by twice because the host renamed it meanwhile. */
static bool make_room(const struct copier *c, const struct walk_entry *e) {
    return errno == EEXIST && unlinkat(c->to[e->depth], e->name, 0) == 0;
}

/* With its last mode from the beginning: the folder is closed to others until it is full. */
static int open_target(const struct copier *c, const struct walk_entry *e) {
    enum { HOW = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC };
    mode_t mode = e->st.st_mode & 0777;
    int to = openat(c->to[e->depth], e->name, HOW, mode);

    return to < 0 && make_room(c, e) ? openat(c->to[e->depth], e->name, HOW, mode) : to;
}

static bool link_to(const struct copier *c, const struct walk_entry *e, const char *target) {
    int to = c->to[e->depth];

    return symlinkat(target, to, e->name) == 0 || (make_room(c, e) && symlinkat(target, to, e->name) == 0);
}

static int copy_regular(struct copier *c, const struct walk_entry *e, struct err *err) {
    CLEANUP(closep) int from = -1, to = -1;
    struct manifest_stamp host, copy;
    struct stat made;
    int r;

    if (!c->c->fresh && is_there(c, e, &made)) {
        host = manifest_stamp_of(&e->st);
        copy = manifest_stamp_of(&made);
        r = count_file(c, 0, err);
        return r < 0 ? r : manifest_set(c->m, e->path, &host, &copy, err);
    }
    from = open_source(e);
    if (from == -ENOENT)
        return note_odd(c, e->path, "was replaced while it was copied; it is left out", err);
    if (from == -EACCES)
        return refuse_closed(e, NULL, err);
    if (from < 0)
        return place_err(err, from, "read", e->path);
    to = open_target(c, e);
    if (to < 0)
        return place_err(err, -errno, "copy", e->path);
    return copy_into(c, e, from, to, err);
}

static int copy_link(struct copier *c, const struct walk_entry *e, struct err *err) {
    struct manifest_stamp host = manifest_stamp_of(&e->st), copy;
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);
    int r, to = c->to[e->depth];
    struct stat st;

    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : place_err(err, -errno, "read", e->path);
    target[n] = 0;
    if (!link_to(c, e, target) || (c->owners && fchownat(to, e->name, e->st.st_uid, e->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0) ||
        fstatat(to, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return place_err(err, -errno, "copy", e->path);
    copy = manifest_stamp_of(&st);
    r = count_file(c, 0, err);
    return r < 0 ? r : manifest_set(c->m, e->path, &host, &copy, err);
}

/* Writable for us until it is full. */
static int enter_copy(struct copier *c, const struct walk_entry *e, struct err *err) {
    int to = c->to[e->depth], *next = &c->to[e->depth + 1];
    bool is_new = mkdirat(to, e->name, 0700) == 0;

    if (!is_new && errno == EEXIST && unlinkat(to, e->name, 0) == 0 && mkdirat(to, e->name, 0700) < 0)
        return place_err(err, -errno, "copy the folder", e->path);
    closep(next);
    *next = openat(to, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*next < 0 || (!is_new && fchmod(*next, 0700) < 0))
        return place_err(err, -errno, "copy the folder", e->path);
    return 0;
}

static int copy_entry(const struct walk_entry *e, void *arg, struct err *err) {
    struct copier *c = arg;

    if (place_is_temp(e->name))
        return WALK_SKIP;
    switch (e->st.st_mode & S_IFMT) {
    case S_IFDIR:
        return enter_copy(c, e, err);
    case S_IFREG:
        return copy_regular(c, e, err);
    case S_IFLNK:
        return copy_link(c, e, err);
    default:
        return note_odd(c, e->path, "is a device, FIFO or socket; it is left out", err);
    }
}

static int leave_copy(const struct walk_entry *e, void *arg, struct err *err) {
    struct manifest_stamp host = manifest_stamp_of(&e->st), copy;
    struct copier *c = arg;
    int fd = c->to[e->depth + 1];
    struct stat st;
    int r = finish_entry(c, fd, &e->st);

    if (r < 0 || fstat(fd, &st) < 0)
        return place_err(err, r < 0 ? r : -errno, "copy the folder", e->path);
    closep(&c->to[e->depth + 1]);
    copy = manifest_stamp_of(&st);
    return manifest_set(c->m, e->path, &host, &copy, err);
}

int copytree_make(const struct copytree *c, struct manifest *m, struct err *err) {
    CLEANUP(copier_done) struct copier k = {.c = c, .m = m, .owners = geteuid() == 0};
    const struct walk_ops copying = {.found = copy_entry, .left = leave_copy, .closed = refuse_closed, .arg = &k};
    int r;

    for (size_t i = 1; i < ARRAY_LEN(k.to); i++)
        k.to[i] = -1;
    k.to[0] = c->to;
    r = walk_tree(c->from, c->hidden, &copying, err);
    if (r == 0 && k.files > 0 && !k.counted && c->progress && c->progress->report) /* a small one: all of it at once */
        c->progress->report(k.files, k.bytes, k.files, c->progress->arg);
    return r;
}

static int trim_found(const struct walk_entry *e, void *arg, struct err *err) {
    if (S_ISDIR(e->st.st_mode) || manifest_find(arg, e->path))
        return WALK_ON;
    return unlinkat(e->dir, e->name, 0) < 0 ? place_err(err, -errno, "remove", e->path) : 0;
}

static int trim_left(const struct walk_entry *e, void *arg, struct err *err) {
    if (manifest_find(arg, e->path))
        return WALK_ON;
    return unlinkat(e->dir, e->name, AT_REMOVEDIR) < 0 ? place_err(err, -errno, "remove the folder", e->path) : 0;
}

int copytree_trim(int to, const struct manifest *m, struct err *err) {
    const struct walk_ops ops = {.found = trim_found, .left = trim_left, .arg = (void *)m};

    return walk_tree(to, NULL, &ops, err);
}
