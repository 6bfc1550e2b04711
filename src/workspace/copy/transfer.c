/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/copy/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/place_path.h"
#include "workspace/copy/transfer_priv.h"

void transfer_done(struct transfer *t) {
    strv_done(&t->notes);
}

int transfer_note(struct transfer *t, const char *path, const char *why, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * WALK_PATH_MAX + 256);

    if (t->left_out++ >= TRANSFER_NOTES_MAX)
        return 0;
    buf_add_printable(&b, path);
    buf_addf(&b, ": %s", why);
    return !buf_ok(&b) || strv_add(&t->notes, buf_str(&b)) < 0 ? err_oom(err) : 0;
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
 * Root works in the sandbox's folders as the one to whom they belong: a file made with another id could not be made at all through an
 * idmapped mount (EOVERFLOW), and without root's rights the kernel refuses what the sandbox could not have done itself.
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

static int fill(int from, int to, uint64_t *ret_bytes) {
    struct stat st;

    if (fstat(from, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? transfer_content(from, to, (uint64_t)st.st_size, ret_bytes)
                               : transfer_pour(from, to, UINT64_MAX, ret_bytes);
}

/*
 * A hidden file of the workspace is covered by a mount, in the sandbox only. A rename onto it from out here would succeed: it would
 * replace the host's own file, and take the cover away.
 */
static bool is_covered(int dir, const char *name) {
    struct statx folder, there;

    if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MNT_ID, &there) < 0)
        return errno != ENOENT;
    if (statx(dir, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_MNT_ID, &folder) < 0)
        return true;
    if (folder.stx_mask & there.stx_mask & STATX_MNT_ID)
        return folder.stx_mnt_id != there.stx_mnt_id;
    return folder.stx_dev_major != there.stx_dev_major || folder.stx_dev_minor != there.stx_dev_minor; /* before Linux 5.8 */
}

/* rename() of a file replaces links, FIFOs and files, never a folder. */
static int settle(int dir, const char *temp, const char *name) {
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
    return linkat(AT_FDCWD, proc, dir, temp, AT_SYMLINK_FOLLOW) < 0 ? -errno : settle(dir, temp, name);
}

/* A file without a name is gone if this process is; not every file system has them. */
static int make_file(int from, int dir, const char *name, mode_t mode, uint64_t *ret_bytes) {
    CLEANUP(closep) int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char temp[PLACE_TEMP_SIZE];
    bool named = fd < 0;
    int r = place_temp_name(temp);

    if (r == 0 && named)
        fd = openat(dir, temp, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r < 0 || fd < 0)
        return r < 0 ? r : -errno;
    r = fill(from, fd, ret_bytes);
    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    if (r == 0)
        r = named ? settle(dir, temp, name) : give_name(fd, dir, name);
    else if (named)
        unlinkat(dir, temp, 0);
    return r;
}

int transfer_make_file(struct transfer *t, int from, int dir, const char *name, mode_t mode) {
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
    int r = transfer_make_file(t, from, dir, name, mode);

    if (r == -EBUSY)
        return err_set(err, r, "'%.300s' is covered or mounted in the sandbox: it is hidden there, and stays so", shown);
    return r < 0 ? place_err(err, r, "write", shown) : 0;
}

/* -- links and folders -------------------------------------------------------------------------------------------------- */

int transfer_make_link(struct transfer *t, const char *target, int dir, const char *name) {
    CLEANUP(guise_done) struct guise g = {0};
    char temp[PLACE_TEMP_SIZE];
    int r = !t->out && is_covered(dir, name) ? -EBUSY : guise_take(t, dir, &g);

    r = r < 0 ? r : place_temp_name(temp);
    if (r == 0 && symlinkat(target, dir, name) < 0) {
        r = -errno;
        if (r == -EEXIST)
            r = symlinkat(target, dir, temp) < 0 ? -errno : settle(dir, temp, name);
    }
    t->links += r == 0;
    return r;
}

int transfer_make_folder(struct transfer *t, int dir, const char *name, bool *ret_new) {
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
    int fd = transfer_make_folder(t, dir, name, &made);

    if (fd >= 0 && made && transfer_set_mode(t, fd, 0777) < 0) {
        closep(&fd);
        fd = -EIO;
    }
    return fd < 0 ? place_err(err, fd, "make the folder", name) : fd;
}
