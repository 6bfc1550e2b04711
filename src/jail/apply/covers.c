/* SPDX-License-Identifier: Apache-2.0 */
/* Covers hidden files of the workspace with empty ones. */
#include "jail/apply/covers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/apply/mask.h"
#include "jail/plan/elsewhere.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/process.h"
#include "os/safepath.h"

#define COVER_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

enum { ENDING_MS = 5000, TRIES = 100 };

struct covers {
    int file, dir;
};

/* ESTALE: a folder of an overlay that the host has removed. */
static bool is_gone(int r) {
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ESTALE;
}

/* A file system of two empty entries with mode 0. */
static int make_covers(struct covers *ret) {
    static const struct fs_param params[] = {{"size", "4096"}, {"nr_inodes", "8"}, {"mode", "0700"}};
    CLEANUP(closep) int fs = mount_new("tmpfs", params, ARRAY_LEN(params), COVER_ATTRS);
    CLEANUP(closep) int file = -1;

    if (fs < 0)
        return fs;
    file = openat(fs, "file", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
    if (file < 0 || mkdirat(fs, "dir", 0) < 0)
        return -errno;
    ret->file = mount_clone(fs, "file", false);
    ret->dir = ret->file < 0 ? ret->file : mount_clone(fs, "dir", false);
    return ret->dir < 0 ? ret->dir : 0;
}

static bool is_own(const struct cover_request *req, const char *path) {
    CLEANUP(closep) int fd = req->upper < 0 ? -1 : safepath_open(req->upper, path, O_PATH);

    return fd >= 0;
}

/* A cover, a substitute, or what the user mounts by name: whatever the host has there is out of sight. */
static bool is_mounted_on(int at) {
    struct statx stx;

    return statx(at, "", AT_EMPTY_PATH, 0, &stx) == 0 && (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* The mask (apply_overlay.c) lies where /proc is mounted: reached in a mount namespace of our own, in which that can be taken off. */
static int open_mask(const struct cover_request *req) {
    CLEANUP(closep) int fd = -1;
    CLEANUP(closep) int mask = -1;
    int r;

    if (unshare(CLONE_NEWNS) < 0 || umount2("/proc", MNT_DETACH) < 0)
        return -errno;
    fd = open("/proc/mask", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    mask = mount_clone(fd, "", false); /* the root is read-only, its file system is not */
    r = mask < 0 ? mask : mount_loosen(mask, MOUNT_ATTR_RDONLY);
    if (r == 0 && setns(req->pidfd, CLONE_NEWNS) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(mask);
}

static bool is_masked(const struct cover_request *req, const char *path) {
    const struct strv *m = req->masked;

    return m && m->len && bsearch(&path, m->v, m->len, sizeof path, str_compare);
}

/* The folders on the way to each path, see mask.h; NULL: it is gone, or masked already. Before the namespaces are entered: root's
 * sandbox has an id that may not look everywhere. */
static int look_at_folders(const struct cover_request *req, struct stat ***ret) {
    struct stat **ways = req->upper < 0 ? NULL : calloc(req->paths->len + 1, sizeof(struct stat *));
    size_t n;
    int r = 0;

    if (req->upper >= 0 && !ways)
        return -ENOMEM;
    for (size_t i = 0; ways && r == 0 && i < req->paths->len; i++) {
        r = is_masked(req, req->paths->v[i]) ? 0 : mask_look(req->lower, req->paths->v[i], &ways[i], &n);
        r = is_gone(r) ? 0 : r;
    }
    *ret = ways; /* lives as long as this process */
    return r;
}

/* What overlayfs looks up from now on finds a whiteout, whatever the command or the host make around it, and in whatever order. */
static int mask_all(const struct cover_request *req, struct stat *const *ways) {
    CLEANUP(closep) int mask = -1;
    int r = 0;

    if (req->upper < 0 || req->paths->len == 0)
        return 0;
    mask = open_mask(req);
    if (mask < 0)
        return mask;
    for (size_t i = 0; r == 0 && i < req->paths->len; i++)
        if (ways[i])
            r = mask_path_as(mask, req->paths->v[i], ways[i]);
    return r;
}

static int open_parent(int top, const char *path, int flags, const char **ret_name) {
    const char *slash = strrchr(path, '/');
    CLEANUP(freep) char *dir = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");

    *ret_name = slash ? slash + 1 : path;
    return dir ? safepath_open(top, dir, flags | O_DIRECTORY) : -ENOMEM;
}

/* What overlayfs has looked up already does not see the mask: made and removed again through it, which leaves a whiteout in upper/. */
static int make_absent(int top, const char *path) {
    const char *name;
    CLEANUP(closep) int parent = open_parent(top, path, O_PATH, &name);
    CLEANUP(closep) int fd = -1;

    if (parent < 0)
        return is_gone(parent) ? 0 : parent;
    fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && errno != EEXIST)
        return is_gone(-errno) ? 0 : -errno;
    return unlinkat(parent, name, 0) < 0 && !is_gone(-errno) ? -errno : 0;
}

/* Each cover is mounted once, so it is made anew for every path. -EAGAIN: what stood there has lost its name meanwhile. */
static int cover_once(int top, const char *path) {
    CLEANUP(closep) int at = safepath_open(top, path, O_PATH);
    struct covers c = {-1, -1};
    struct stat st;
    int r;

    if (at < 0)
        return is_gone(at) ? 0 : at;
    if (fstat(at, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode) || is_mounted_on(at))
        return 0;
    r = make_covers(&c);
    if (r == 0)
        r = mount_restrict(S_ISDIR(st.st_mode) ? c.dir : c.file, COVER_ATTRS | MOUNT_ATTR_RDONLY, false);
    if (r == 0)
        r = mount_attach(S_ISDIR(st.st_mode) ? c.dir : c.file, at, "");
    closep(&c.file);
    closep(&c.dir);
    return r == -ENOENT ? -EAGAIN : r;
}

/* The host saves it at this moment, once more. */
static int cover_one(int top, const char *path) {
    int r = -EAGAIN;

    for (int i = 0; r == -EAGAIN && i < TRIES; i++)
        r = cover_once(top, path);
    return r;
}

/* One that has given up its memory but is not gone yet cannot be entered any more: EPERM since Linux 6.18. PID 1 may wait long for what it
 * killed (a disk), so its end is not waited for where /proc tells. */
static bool is_ending(int pidfd) {
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    return process_is_exiting(pidfd) || poll(&p, 1, ENDING_MS) == 1;
}

/* Ours have no mode at all. They are from make_covers(), or from the start: then they may be of a root on disk (ground.h), which is read-only. */
static bool is_cover(int at) {
    struct statfs fs;
    struct stat st;

    return is_mounted_on(at) && fstat(at, &st) == 0 && (st.st_mode & 07777) == 0 && fstatfs(at, &fs) == 0 &&
           (fs.f_type == TMPFS_MAGIC || fs.f_flags & ST_RDONLY);
}

static int uncover(int top, const char *path) {
    CLEANUP(closep) int at = safepath_open(top, path, O_PATH);
    CLEANUP(closep) int parent = -1;
    const char *name;

    if (at < 0)
        return is_gone(at) ? 0 : at;
    if (!is_cover(at))
        return 0;
    parent = open_parent(top, path, O_RDONLY, &name);
    if (parent < 0)
        return is_gone(parent) ? 0 : parent;
    return fchdir(parent) < 0 || umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

static int cover_in(const struct cover_request *req, int top, const char *path) {
    int r;

    if (is_masked(req, path))
        return 0;
    if (req->upper < 0)
        return cover_one(top, path);
    r = is_own(req, path) ? 0 : make_absent(top, path);
    return r == -EISDIR || r == -EPERM || r == -EBUSY ? cover_one(top, path) : r; /* a folder */
}

static bool has_any(const struct elsewhere *e, const struct strv *paths) {
    for (size_t i = 0; i < paths->len; i++)
        if (elsewhere_rest(e, paths->v[i]))
            return true;
    return false;
}

/* A mount of the user's that shows the workspace a second time. */
static int cover_elsewhere(const struct cover_request *req) {
    int first = 0;

    for (size_t i = 0; req->elsewhere && i < req->elsewhere->n; i++) {
        const struct elsewhere *e = &req->elsewhere->v[i];
        CLEANUP(closep) int top = -1;

        if (!has_any(e, req->paths) && !has_any(e, req->opened))
            continue;
        top = open(e->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (top < 0)
            return -errno; /* moved away, where it may be written to: it cannot be hidden there any more */
        for (size_t k = 0; k < req->opened->len; k++)
            if (elsewhere_rest(e, req->opened->v[k]))
                first = MIN_OF(first, uncover(top, elsewhere_rest(e, req->opened->v[k])));
        for (size_t k = 0; k < req->paths->len; k++)
            if (elsewhere_rest(e, req->paths->v[k]))
                first = MIN_OF(first, cover_one(top, elsewhere_rest(e, req->paths->v[k])));
    }
    return first;
}

static int cover_all(const struct cover_request *req) {
    CLEANUP(closep) int top = -1;
    struct stat **ways = NULL;
    int first = look_at_folders(req, &ways);

    if (first < 0)
        return first;
    if (setns(req->pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return errno == ESRCH || (errno == EPERM && is_ending(req->pidfd)) ? 0 : -errno;
    /* Root outside has no id in there, and could not even make an empty file. */
    if (setresgid(req->gid, req->gid, req->gid) < 0 || setresuid(req->uid, req->uid, req->uid) < 0)
        return -errno;
    first = mask_all(req, ways);
    first = first < 0 ? first : cover_elsewhere(req);
    if (first < 0 || req->copy)
        return first;
    top = open(req->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -errno;
    for (size_t i = 0; i < req->opened->len; i++) {
        int r = uncover(top, req->opened->v[i]);

        first = r < 0 && !first ? r : first;
    }
    for (size_t i = 0; i < req->paths->len; i++) {
        int r = cover_in(req, top, req->paths->v[i]);

        first = r < 0 && !first ? r : first;
    }
    return first;
}

int cover_paths(const struct cover_request *req, struct err *err) {
    int status;
    pid_t pid = fork(); /* a process of its own memory: it ends in the sandbox's namespaces and must leave nothing of that here */

    if (pid < 0)
        return err_sys(err, -errno, "cover files that appeared");
    if (pid == 0)
        _exit(-cover_all(req) & 0xff);
    status = process_wait(pid);
    if (status < 0)
        return err_sys(err, status, "cover files that appeared");
    if (!WIFEXITED(status))
        return err_set(err, -EIO, "cover files that appeared: the helper was killed");
    return WEXITSTATUS(status) ? err_sys(err, -WEXITSTATUS(status), "cover files that appeared") : 0;
}
