/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: the walker goes through the source; to[] holds the folders of the target on the way to where it is. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/place.h"
#include "workspace/copy/transfer_priv.h"

struct course {
    struct transfer *t;
    int to[WALK_DEPTH_MAX + 1];
    bool new_[WALK_DEPTH_MAX + 1]; /* made here: gets the mode of its source when all is in it */
    dev_t dev;                     /* of the source's top */
};

static void course_done(struct course *c) {
    for (size_t i = 1; i < ARRAY_LEN(c->to); i++)
        closep(&c->to[i]);
}

/* What happens to one name and says nothing about the next. */
static const char *single_fault(int r) {
    switch (r) {
    case -EISDIR:
    case -EEXIST:
    case -ENOTEMPTY:
        return "something else stands in its place";
    case -EACCES:
    case -EPERM:
        return "permission denied";
    case -ENOENT:
    case -ELOOP:
    case -ENOTDIR:
    case -ESTALE:
    case -EINVAL:
        return "was replaced while it was copied";
    case -EBUSY:
        return "is covered or mounted in the sandbox";
    case -EFBIG:
        return "is larger than the file system takes";
    case -ENAMETOOLONG:
        return "its name is too long there";
    default:
        return NULL;
    }
}

static int judge(struct course *c, const struct walk_entry *e, int r, struct err *err) {
    const char *why = single_fault(r);

    if (r >= 0)
        return r;
    return why ? transfer_note(c->t, e->path, why, err) : place_err(err, r, "copy", e->path);
}

static int copy_file(struct course *c, const struct walk_entry *e, struct err *err) {
    struct stat st;
    CLEANUP(closep) int from = transfer_open(e->dir, e->name, &st);
    int r = from < 0 ? from : transfer_make_file(c->t, from, c->to[e->depth], e->name, st.st_mode);

    return judge(c, e, r, err);
}

static int copy_link(struct course *c, const struct walk_entry *e, struct err *err) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);

    if (n < 0)
        return judge(c, e, -errno, err);
    target[n] = 0;
    if (c->t->out && !transfer_link_stays(target, e->depth))
        return transfer_note(c->t, e->path, "is a link that leads out of what is copied", err);
    return judge(c, e, transfer_make_link(c->t, target, c->to[e->depth], e->name), err);
}

static bool is_foreign(const struct course *c, const struct walk_entry *e) {
    CLEANUP(closep) int fd = -1;

    if (e->st.st_dev == c->dev)
        return false;
    fd = openat(e->dir, e->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || transfer_is_foreign(fd);
}

static int skip(struct course *c, const struct walk_entry *e, const char *why, struct err *err) {
    int r = transfer_note(c->t, e->path, why, err);

    return r < 0 ? r : WALK_SKIP;
}

static int open_folder(struct course *c, const struct walk_entry *e, struct err *err) {
    bool made = false;
    int fd, r;

    if (is_foreign(c, e))
        return skip(c, e, "belongs to the kernel", err);
    fd = transfer_make_folder(c->t, c->to[e->depth], e->name, &made);
    if (fd < 0) {
        r = judge(c, e, fd, err);
        return r < 0 ? r : WALK_SKIP;
    }
    closep(&c->to[e->depth + 1]);
    c->to[e->depth + 1] = fd;
    c->new_[e->depth + 1] = made;
    return WALK_ON;
}

static int found(const struct walk_entry *e, void *arg, struct err *err) {
    struct course *c = arg;

    if (++c->t->entries > TRANSFER_ENTRIES_MAX)
        return err_set(err, -E2BIG, "more than %d files and folders: copy them in parts", TRANSFER_ENTRIES_MAX);
    switch (e->st.st_mode & S_IFMT) {
    case S_IFDIR:
        return open_folder(c, e, err);
    case S_IFREG:
        return copy_file(c, e, err);
    case S_IFLNK:
        return copy_link(c, e, err);
    default:
        return transfer_note(c->t, e->path, "is a device, FIFO or socket", err);
    }
}

static int left(const struct walk_entry *e, void *arg, struct err *err) {
    struct course *c = arg;
    unsigned in = e->depth + 1;
    int r = c->new_[in] ? transfer_set_mode(c->t, c->to[in], e->st.st_mode) : 0;

    closep(&c->to[in]);
    return judge(c, e, r, err);
}

static int closed(const struct walk_entry *e, void *arg, struct err *err) {
    struct course *c = arg;
    int r = transfer_note(c->t, e->path, "permission denied", err);

    return r < 0 ? r : left(e, arg, err);
}

int transfer_tree(struct transfer *t, int from, int to, struct err *err) {
    CLEANUP(course_done) struct course c = {.t = t};
    const struct walk_ops ops = {.found = found, .left = left, .closed = closed, .arg = &c};
    struct stat st;

    for (size_t i = 1; i < ARRAY_LEN(c.to); i++)
        c.to[i] = -1;
    c.to[0] = to;
    if (fstat(from, &st) < 0)
        return err_sys(err, -errno, "look at the folder");
    c.dev = st.st_dev;
    if (transfer_is_foreign(from))
        return err_set(err, -EINVAL, "that folder belongs to the kernel; nothing in it is a file of the sandbox");
    return walk_tree(from, NULL, &ops, err);
}
