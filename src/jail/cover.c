#include "jail/cover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/safepath.h"

#define COVER_ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

enum { ENDING_MS = 5000 };

struct covers {
    int file, dir;
};

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

/* In an overlay: made and removed again through it, which leaves a whiteout in upper/. overlayfs may remember that there was no
 * such name, and what it remembers cannot be covered, but would be forgotten some day (memory pressure), and the file seen. */
static int make_absent(int top, const char *path) {
    CLEANUP(freep) char *dir = strdup(path);
    CLEANUP(closep) int parent = -1;
    CLEANUP(closep) int fd = -1;
    char *slash = dir ? strrchr(dir, '/') : NULL;
    const char *name = slash ? path + (slash - dir) + 1 : path;

    if (!dir)
        return -ENOMEM;
    if (slash)
        *slash = 0;
    parent = safepath_open(top, slash ? dir : ".", O_PATH | O_DIRECTORY);
    if (parent < 0)
        return parent == -ENOENT || parent == -ENOTDIR || parent == -ELOOP ? 0 : parent;
    fd = openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0 && errno != EEXIST)
        return -errno;
    return unlinkat(parent, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Each cover is mounted once, so it is made anew for every path. */
static int cover_one(int top, const char *path) {
    CLEANUP(closep) int at = safepath_open(top, path, O_PATH);
    struct covers c = {-1, -1};
    struct stat st;
    int r;

    if (at < 0)
        return at == -ENOENT || at == -ENOTDIR || at == -ELOOP ? 0 : at;
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
    return r;
}

/* One that has given up its memory but is not gone yet cannot be entered any more: EPERM since Linux 6.18. */
static bool is_ending(int pidfd) {
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    return poll(&p, 1, ENDING_MS) == 1;
}

static int cover_all(const struct cover_request *req) {
    CLEANUP(closep) int top = -1;
    int first = 0;

    if (setns(req->pidfd, CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return errno == ESRCH || (errno == EPERM && is_ending(req->pidfd)) ? 0 : -errno;
    /* Root outside is nobody in there, and could not even make an empty file. */
    if (setresgid(req->gid, req->gid, req->gid) < 0 || setresuid(req->uid, req->uid, req->uid) < 0)
        return -errno;
    top = open(req->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return -errno;
    for (size_t i = 0; i < req->paths->len; i++) {
        const char *path = req->paths->v[i];
        int r = 0;

        if (req->upper >= 0 && !is_own(req, path))
            r = make_absent(top, path);
        if (req->upper < 0 || r == -EISDIR || r == -EPERM || r == -EBUSY) /* a folder */
            r = cover_one(top, path);

        if (r < 0 && !first)
            first = r;
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
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "cover files that appeared");
    if (!WIFEXITED(status))
        return err_set(err, -EIO, "cover files that appeared: the helper was killed");
    return WEXITSTATUS(status) ? err_sys(err, -WEXITSTATUS(status), "cover files that appeared") : 0;
}
