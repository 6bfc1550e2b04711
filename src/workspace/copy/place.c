/* SPDX-License-Identifier: Apache-2.0 */
/* Stages files and links, and moves them into place. */
#include "workspace/copy/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/copy/xattrs.h"

/* -- paths ---------------------------------------------------------------------------------------------------------------- */

/* openat2(2) takes no path of more than PATH_MAX bytes, but trees can be deeper: long ones are walked in pieces. */
int place_open(int root, const char *path, int flags) {
    CLEANUP(closep) int dir = -1;
    char part[PATH_MAX];

    while (strlen(path) >= PATH_MAX) {
        const char *cut = memrchr(path, '/', PATH_MAX - 1);
        int next;

        if (!cut)
            return -ENAMETOOLONG;
        memcpy(part, path, (size_t)(cut - path));
        part[cut - path] = 0;
        next = safepath_open(dir < 0 ? root : dir, part, O_PATH | O_DIRECTORY);
        if (next < 0)
            return next;
        closep(&dir);
        dir = next;
        path = cut + 1;
    }
    return safepath_open(dir < 0 ? root : dir, path, flags);
}

/* By descriptor: the owner of the tree could put a hard link to a file of root's where the folder was. */
static int make_folder(int dir, const char *name) {
    CLEANUP(closep) int fd = -1;
    struct stat st;

    if (mkdirat(dir, name, 0777) < 0)
        return errno == EEXIST ? 0 : -errno;
    if (geteuid() != 0)
        return 0;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(dir, &st) < 0 || fchown(fd, st.st_uid, st.st_gid) < 0)
        return -errno;
    return 0;
}

static int make_parents(int root, const char *path) {
    CLEANUP(closep) int dir = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char part[NAME_MAX + 1];

    if (dir < 0)
        return -errno;
    while (path[0]) {
        size_t len = strcspn(path, "/");
        int next, r;

        if (len == 0 || len > NAME_MAX)
            return len ? -ENAMETOOLONG : -EINVAL;
        memcpy(part, path, len);
        part[len] = 0;
        next = safepath_open(dir, part, O_PATH | O_DIRECTORY);
        if (next == -ENOENT) {
            r = make_folder(dir, part);
            next = r < 0 ? r : safepath_open(dir, part, O_PATH | O_DIRECTORY);
        }
        if (next < 0)
            return next;
        closep(&dir);
        dir = next;
        path += path[len] ? len + 1 : len;
    }
    return TAKE_FD(dir);
}

static int open_parent(int root, const char *path, bool create, const char **ret_name) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    CLEANUP(freep) char *folder = NULL;
    int fd;

    if (!name[0] || str_eq(name, ".") || str_eq(name, ".."))
        return -EINVAL;
    folder = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    if (!folder)
        return -ENOMEM;
    fd = place_open(root, folder, O_PATH | O_DIRECTORY);
    if (fd == -ENOENT && create)
        fd = make_parents(root, folder);
    if (fd >= 0)
        *ret_name = name;
    return fd;
}

int place_stat(int root, const char *path, struct stat *ret) {
    const char *name;
    CLEANUP(closep) int dir = open_parent(root, path, false, &name);

    if (dir < 0)
        return dir;
    return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int place_stamp(int root, const char *path, struct manifest_stamp *ret) {
    struct stat st;
    int r = place_stat(root, path, &st);

    *ret = r < 0 ? (struct manifest_stamp){0} : manifest_stamp_of(&st);
    return r;
}

int place_read(int root, const char *path) {
    return place_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
}

bool place_links_to(int root, const char *path, const char *target) {
    CLEANUP(freep) char *now = place_link_target(root, path);

    return target && now && str_eq(now, target);
}

char *place_link_target(int root, const char *path) {
    CLEANUP(closep) int fd = place_open(root, path, O_PATH);
    char target[PATH_MAX];
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target);

    return n < 0 || n == sizeof target ? NULL : strndup(target, (size_t)n);
}

/* -- staging and moving into place -------------------------------------------------------------------------------- */

/* Owner of what was there, else of the folder. Only root can give files away. fd: the new one, O_PATH will do. */
static int give_away(int dir, const char *name, int fd) {
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && fstat(dir, &st) < 0)
        return -errno;
    return fchownat(fd, "", st.st_uid, st.st_gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* The mode comes after the owner, for a change of owner drops bits; the time last, for everything else sets it. */
static int fill_file(int dir, const char *name, int fd, int content, const struct place_meta *meta) {
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)(meta->mtime_ns / 1000000000), .tv_nsec = (long)(meta->mtime_ns % 1000000000)}};
    int r = copy_content(content, fd, INT64_MAX, NULL);

    if (r == 0)
        r = give_away(dir, name, fd);
    if (r == 0 && meta->xattrs)
        r = xattrs_write(fd, meta->xattrs, meta->xattrs_len);
    if (r == 0 && fchmod(fd, meta->mode & 0777) < 0)
        r = -errno;
    if (r == 0 && meta->mtime_ns && futimens(fd, times) < 0)
        r = -errno;
    return r;
}

/* A file without a name is gone if this process is; where the file system has none, it gets its name at once. */
static int stage_file_at(int dir, const char *name, int content, const struct place_meta *meta, const char *temp) {
    CLEANUP(closep) int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    bool named = fd < 0;
    char proc[32];
    int r;

    if (named)
        fd = openat(dir, temp, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = fill_file(dir, name, fd, content, meta);
    if (r < 0 && named)
        unlinkat(dir, temp, 0);
    if (r < 0 || named)
        return r;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, proc, dir, temp, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* The owner of the tree could put a hard link to a file of root's where the link was: what is given away is a link. */
static int stage_link_at(int dir, const char *name, const char *target, const char *temp) {
    CLEANUP(closep) int fd = -1;
    struct stat st;
    int r;

    if (symlinkat(target, dir, temp) < 0)
        return -errno;
    fd = openat(dir, temp, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    r = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISLNK(st.st_mode) ? give_away(dir, name, fd) : -ESTALE;
    if (r < 0)
        unlinkat(dir, temp, 0);
    return r;
}

/* target NULL: a file. */
static int stage(int root, const char *path, int content, const struct place_meta *meta, const char *target, char **ret_temp,
                 struct err *err) {
    const char *name = path;
    CLEANUP(closep) int dir = open_parent(root, path, true, &name);
    char temp[PLACE_TEMP_SIZE];
    int r = dir < 0 ? dir : place_temp_name(temp);

    if (r == 0)
        r = target ? stage_link_at(dir, name, target, temp) : stage_file_at(dir, name, content, meta, temp);
    if (r < 0)
        return place_err(err, r, target ? "make the symbolic link" : "write", path);
    *ret_temp = str_dupf("%.*s%s", (int)(name - path), path, temp);
    if (*ret_temp)
        return 0;
    unlinkat(dir, temp, 0);
    return err_oom(err);
}

int place_stage_file(int root, const char *path, int content, const struct place_meta *meta, char **ret_temp, struct err *err) {
    return stage(root, path, content, meta, NULL, ret_temp, err);
}

int place_stage_link(int root, const char *path, const char *target, char **ret_temp, struct err *err) {
    return stage(root, path, -1, NULL, target, ret_temp, err);
}

static int commit(int root, const char *temp, const char *path, const struct manifest_stamp *expect, bool new_, struct err *err) {
    const char *name = path, *temp_name = temp;
    CLEANUP(closep) int dir = open_parent(root, path, false, &name);
    CLEANUP(closep) int temp_dir = open_parent(root, temp, false, &temp_name);
    int r = dir < 0 ? dir : temp_dir;

    if (r >= 0)
        r = new_ ? place_move_new(dir, temp_name, name) : place_swap(dir, temp_name, name, expect);
    return r < 0 ? place_err(err, r, "write", path) : 0;
}

int place_commit(int root, const char *temp, const char *path, const struct manifest_stamp *expect, struct err *err) {
    return commit(root, temp, path, expect, false, err);
}

int place_commit_new(int root, const char *temp, const char *path, struct err *err) {
    return commit(root, temp, path, NULL, true, err);
}

void place_discard(int root, const char *temp) {
    const char *name;
    CLEANUP(closep) int dir = open_parent(root, temp, false, &name);

    if (dir >= 0 && place_is_temp(name))
        unlinkat(dir, name, 0);
}

int place_file(int root, const char *path, int content, const struct place_meta *meta, const struct manifest_stamp *expect,
               struct err *err) {
    CLEANUP(freep) char *temp = NULL;
    int r = place_stage_file(root, path, content, meta, &temp, err);

    return r < 0 ? r : place_commit(root, temp, path, expect, err);
}

int place_link(int root, const char *path, const char *target, const struct manifest_stamp *expect, struct err *err) {
    CLEANUP(freep) char *temp = NULL;
    int r = place_stage_link(root, path, target, &temp, err);

    return r < 0 ? r : place_commit(root, temp, path, expect, err);
}

int place_dir(int root, const char *path, mode_t mode, struct err *err) {
    const char *name = path;
    CLEANUP(closep) int dir = open_parent(root, path, true, &name), folder = -1;
    int r = dir;

    if (r >= 0)
        r = make_folder(dir, name);
    if (r < 0)
        return place_err(err, r, "make the folder", path);
    /* by descriptor: what is opened here is a folder, whatever the name becomes */
    folder = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 && (errno == ENOTDIR || errno == ELOOP))
        return place_err(err, -EEXIST, "make the folder", path);
    if (folder < 0 || fchmod(folder, mode & 0777) < 0)
        return place_err(err, -errno, "make the folder", path);
    return 0;
}

int place_remove(int root, const char *path, const struct manifest_stamp *expect, struct err *err) {
    const char *name = path;
    CLEANUP(closep) int dir = open_parent(root, path, false, &name);
    int r = dir;

    if (r >= 0)
        r = place_take_away(dir, name, expect);
    return r < 0 && r != -ENOENT ? place_err(err, r, "remove", path) : r;
}
