/* SPDX-License-Identifier: Apache-2.0 */
/* Copies files and trees between a sandbox and the host. */
#include "workspace/copy/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/fsuid.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/mountinfo.h"
#include "workspace/copy/place.h"
#include "workspace/copy/transfer_priv.h"
#include "workspace/copy/walk.h"

void transfer_done(struct transfer *t) {
    strv_done(&t->notes);
}

int transfer_note(struct transfer *t, const char *path, const char *why, struct err *err) {
    return t->left_out++ >= TRANSFER_NOTES_MAX ? 0 : place_note(&t->notes, path, why, err);
}

bool transfer_link_stays(const char *target, unsigned depth) {
    bool named = false;

    if (target[0] == '/' || target[0] == 0)
        return false;
    for (const char *s = target; *s;) {
        size_t len = strcspn(s, "/");
        bool up = len == 2 && s[0] == '.' && s[1] == '.', here = len == 0 || (len == 1 && s[0] == '.');

        if (up && (named || depth-- == 0))
            return false;
        named |= !up && !here;
        s += len + (s[len] == '/');
    }
    return true;
}

int transfer_open(int dir, const char *name, struct stat *ret) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0)
        return errno == ENXIO || errno == ENODEV ? -EINVAL : -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    *ret = st;
    return TAKE_FD(fd);
}

bool transfer_is_foreign(int folder) {
    /* <linux/magic.h>: proc, sysfs, devpts, cgroup, cgroup2, mqueue, debugfs */
    static const unsigned magic[] = {0x9fa0, 0x62656572, 0x1cd1, 0x27e0eb, 0x63677270, 0x19800202, 0x64626720};
    struct statfs fs;

    if (fstatfs(folder, &fs) < 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(magic); i++)
        if ((unsigned)fs.f_type == magic[i])
            return true;
    return false;
}

/*
 * Root works in the sandbox's folders as their owner: a file with another id cannot be made through an idmapped mount (EOVERFLOW),
 * and without root's rights the kernel refuses what the sandbox could not have done itself.
 */
struct guise {
    bool on;
    uid_t uid;
    gid_t gid;
};

static void guise_done(struct guise *g) {
    if (!g->on)
        return;
    setfsuid(g->uid);
    setfsgid(g->gid);
    g->on = false;
}

static int guise_take(const struct transfer *t, int dir, struct guise *ret) {
    struct stat st;

    if (!t->give || geteuid() != 0)
        return 0;
    if (fstat(dir, &st) < 0)
        return -errno;
    ret->gid = (gid_t)setfsgid(st.st_gid);
    ret->uid = (uid_t)setfsuid(st.st_uid);
    ret->on = true;
    /* These calls report no failure; asking with an id that cannot be tells what holds. */
    return (uid_t)setfsuid((uid_t)-1) == st.st_uid && (gid_t)setfsgid((gid_t)-1) == st.st_gid ? 0 : -EPERM;
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

static int fill_file(const struct transfer_source *from, int to, uint64_t *ret_bytes) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = from->changed}};
    struct stat st;
    int r;

    if (from->fill) {
        r = from->fill(from->arg, to, ret_bytes);
        return r == 0 && from->changed && futimens(to, times) < 0 ? -errno : r;
    }
    if (fstat(from->fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? transfer_content(from->fd, to, (uint64_t)st.st_size, ret_bytes)
                               : transfer_pour(from->fd, to, UINT64_MAX, ret_bytes);
}

/*
 * A hidden file of the workspace is covered by a mount, in the sandbox only. A rename onto it from out here would succeed: it would
 * replace the host's own file, and take the cover away.
 */
static bool is_covered(int dir, const char *name) {
    uint64_t folder, there;
    int r = mountinfo_of(dir, name, &there);

    return r < 0 ? r != -ENOENT : mountinfo_of(dir, "", &folder) < 0 || folder != there;
}

/* rename() of a file replaces links, FIFOs and files, never a folder. */
static int rename_over(int dir, const char *temp, const char *name) {
    int r = renameat(dir, temp, dir, name) < 0 ? -errno : 0;

    if (r < 0)
        unlinkat(dir, temp, 0);
    return r;
}

static int give_name(int fd, int dir, const char *name) {
    char temp[PLACE_TEMP_SIZE], proc[32];
    int r = place_temp_name(temp);

    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    if (r < 0 || linkat(AT_FDCWD, proc, dir, name, AT_SYMLINK_FOLLOW) == 0)
        return r;
    if (errno != EEXIST)
        return -errno;
    return linkat(AT_FDCWD, proc, dir, temp, AT_SYMLINK_FOLLOW) < 0 ? -errno : rename_over(dir, temp, name);
}

/* A file without a name is gone if this process is; not every file system has them. */
static int make_file(const struct transfer_source *from, int dir, const char *name, mode_t mode, uint64_t *ret_bytes) {
    CLEANUP(closep) int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char temp[PLACE_TEMP_SIZE];
    bool named = fd < 0;
    int r = place_temp_name(temp);

    if (r == 0 && named)
        fd = openat(dir, temp, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r < 0 || fd < 0)
        return r < 0 ? r : -errno;
    r = fill_file(from, fd, ret_bytes);
    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    if (r == 0)
        r = named ? rename_over(dir, temp, name) : give_name(fd, dir, name);
    else if (named)
        unlinkat(dir, temp, 0);
    return r;
}

int transfer_put_file(struct transfer *t, const struct transfer_source *from, int dir, const char *name, mode_t mode) {
    CLEANUP(guise_done) struct guise g = {0};
    uint64_t bytes = 0;
    int r = !t->out && is_covered(dir, name) ? -EBUSY : guise_take(t, dir, &g);

    r = r < 0 ? r : make_file(from, dir, name, mode & 0777 & ~t->umask_, &bytes);
    if (r < 0)
        return r;
    t->files++;
    t->bytes += bytes;
    if (t->progress && t->progress->report)
        t->progress->report(t->files, t->bytes, 0, t->progress->arg);
    return 0;
}

int transfer_file(struct transfer *t, int from, int dir, const char *name, mode_t mode, const char *shown, struct err *err) {
    int r = transfer_put_file(t, &(struct transfer_source){.fd = from}, dir, name, mode);

    if (r == -EBUSY)
        return err_set(err, r, "'%.300s' is covered or mounted in the sandbox: it is hidden there, and stays so", shown);
    return r < 0 ? place_err(err, r, "write", shown) : 0;
}

/* -- links and folders -------------------------------------------------------------------------------------------------- */

int transfer_put_link(struct transfer *t, const char *target, int dir, const char *name) {
    CLEANUP(guise_done) struct guise g = {0};
    char temp[PLACE_TEMP_SIZE];
    int r = !t->out && is_covered(dir, name) ? -EBUSY : guise_take(t, dir, &g);

    r = r < 0 ? r : place_temp_name(temp);
    if (r == 0 && symlinkat(target, dir, name) < 0) {
        r = -errno;
        if (r == -EEXIST)
            r = symlinkat(target, dir, temp) < 0 ? -errno : rename_over(dir, temp, name);
    }
    t->links += r == 0;
    return r;
}

int transfer_put_folder(struct transfer *t, int dir, const char *name, bool *ret_new) {
    CLEANUP(guise_done) struct guise g = {0};
    bool made = false;
    int fd, r = guise_take(t, dir, &g);

    if (r == 0 && mkdirat(dir, name, 0700) < 0)
        r = errno == EEXIST ? 0 : -errno;
    else
        made = r == 0;
    if (r < 0)
        return r;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? -EEXIST : -errno;
    t->folders += made;
    *ret_new = made;
    return fd;
}

int transfer_set_mode(struct transfer *t, int folder, mode_t mode) {
    CLEANUP(guise_done) struct guise g = {0};
    int r = guise_take(t, folder, &g);

    return r < 0 ? r : fchmod(folder, mode & 0777 & ~t->umask_) < 0 ? -errno : 0;
}

int transfer_folder(struct transfer *t, int dir, const char *name, struct err *err) {
    bool made = false;
    int fd = transfer_put_folder(t, dir, name, &made);

    if (fd >= 0 && made && transfer_set_mode(t, fd, 0777) < 0) {
        closep(&fd);
        fd = -EIO;
    }
    return fd < 0 ? place_err(err, fd, "make the folder", name) : fd;
}

/* -- whole trees ---------------------------------------------------------------------------------------------------------- */

/* Theory of operation: the walker goes through the source; to[] holds the folders of the target on the way to where it is. */

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
const char *transfer_fault(int r) {
    static const struct {
        const char *why;
        int errors[5];
    } faults[] = {
        {"something else is in its place", {EISDIR, EEXIST, ENOTEMPTY}},
        {"permission denied", {EACCES, EPERM}},
        {"was replaced while it was copied", {ENOENT, ELOOP, ENOTDIR, ESTALE, EINVAL}},
        {"is covered or mounted in the sandbox", {EBUSY}},
        {"is larger than the file system takes", {EFBIG}},
        {"its name is too long there", {ENAMETOOLONG}},
    };

    for (size_t i = 0; r < 0 && i < ARRAY_LEN(faults); i++)
        for (size_t k = 0; k < ARRAY_LEN(faults[i].errors); k++)
            if (r == -faults[i].errors[k])
                return faults[i].why;
    return NULL;
}

static int note_or_fail(struct course *c, const struct walk_entry *e, int r, struct err *err) {
    const char *why = transfer_fault(r);

    if (r >= 0)
        return r;
    return why ? transfer_note(c->t, e->path, why, err) : place_err(err, r, "copy", e->path);
}

static int carry_file(struct course *c, const struct walk_entry *e, struct err *err) {
    struct stat st;
    CLEANUP(closep) int from = transfer_open(e->dir, e->name, &st);
    int r =
        from < 0 ? from : transfer_put_file(c->t, &(struct transfer_source){.fd = from}, c->to[e->depth], e->name, st.st_mode);

    return note_or_fail(c, e, r, err);
}

static int carry_link(struct course *c, const struct walk_entry *e, struct err *err) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(e->dir, e->name, target, sizeof target - 1);

    if (n < 0)
        return note_or_fail(c, e, -errno, err);
    target[n] = 0;
    if (c->t->out && !transfer_link_stays(target, e->depth))
        return transfer_note(c->t, e->path, "is a link that leads out of what is copied", err);
    return note_or_fail(c, e, transfer_put_link(c->t, target, c->to[e->depth], e->name), err);
}

static bool is_foreign(const struct course *c, const struct walk_entry *e) {
    CLEANUP(closep) int fd = -1;

    if (e->st.st_dev == c->dev)
        return false;
    fd = openat(e->dir, e->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || transfer_is_foreign(fd);
}

static int enter_folder(struct course *c, const struct walk_entry *e, struct err *err) {
    bool made = false, foreign = is_foreign(c, e);
    int fd = foreign ? -EXDEV : transfer_put_folder(c->t, c->to[e->depth], e->name, &made), r;

    if (fd < 0) {
        r = foreign ? transfer_note(c->t, e->path, "belongs to the kernel", err) : note_or_fail(c, e, fd, err);
        return r < 0 ? r : WALK_SKIP;
    }
    closep(&c->to[e->depth + 1]);
    c->to[e->depth + 1] = fd;
    c->new_[e->depth + 1] = made;
    return WALK_ON;
}

static int carry_entry(const struct walk_entry *e, void *arg, struct err *err) {
    struct course *c = arg;

    if (++c->t->entries > TRANSFER_ENTRIES_MAX)
        return err_set(err, -E2BIG, "more than %d files and folders: copy them in parts", TRANSFER_ENTRIES_MAX);
    switch (e->st.st_mode & S_IFMT) {
    case S_IFDIR:
        return enter_folder(c, e, err);
    case S_IFREG:
        return carry_file(c, e, err);
    case S_IFLNK:
        return carry_link(c, e, err);
    default:
        return transfer_note(c->t, e->path, "is a device, FIFO or socket", err);
    }
}

static int leave_folder(const struct walk_entry *e, void *arg, struct err *err) {
    struct course *c = arg;
    unsigned in = e->depth + 1;
    int r = c->new_[in] ? transfer_set_mode(c->t, c->to[in], e->st.st_mode) : 0;

    closep(&c->to[in]);
    return note_or_fail(c, e, r, err);
}

static int note_closed(const struct walk_entry *e, void *arg, struct err *err) {
    struct course *c = arg;
    int r = transfer_note(c->t, e->path, "permission denied", err);

    return r < 0 ? r : leave_folder(e, arg, err);
}

int transfer_tree(struct transfer *t, int from, int to, struct err *err) {
    CLEANUP(course_done) struct course c = {.t = t};
    const struct walk_ops ops = {.found = carry_entry, .left = leave_folder, .closed = note_closed, .arg = &c};
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
