/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/copy/place.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "os/copy.h"
#include "os/fd.h"
#include "workspace/copy/place_path.h"
#include "workspace/copy/place_swap.h"
#include "workspace/copy/xattrs.h"

static struct timespec to_timespec(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* Owner of what stood there, else of the folder. Only root can give files away. fd: the new one, O_PATH will do. */
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
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, to_timespec(meta->mtime_ns)};
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
static int give_link_away(int dir, const char *name, const char *temp) {
    CLEANUP(closep) int fd = openat(dir, temp, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISLNK(st.st_mode) ? give_away(dir, name, fd) : -ESTALE;
}

static int stage_link_at(int dir, const char *name, const char *target, const char *temp) {
    int r;

    if (symlinkat(target, dir, temp) < 0)
        return -errno;
    r = give_link_away(dir, name, temp);
    if (r < 0)
        unlinkat(dir, temp, 0);
    return r;
}

/* path without its last part, and temp in its place */
static char *beside(const char *path, const char *name, const char *temp) {
    return str_dupf("%.*s%s", (int)(name - path), path, temp);
}

int place_stage_file(int root, const char *path, int content, const struct place_meta *meta, char **ret_temp, struct err *err) {
    const char *name = path;
    CLEANUP(closep) int dir = place_parent(root, path, true, &name);
    char temp[PLACE_TEMP_SIZE];
    char *whole;
    int r = dir < 0 ? dir : place_temp_name(temp);

    if (r == 0)
        r = stage_file_at(dir, name, content, meta, temp);
    if (r < 0)
        return place_err(err, r, "write", path);
    whole = beside(path, name, temp);
    if (!whole) {
        unlinkat(dir, temp, 0);
        return err_oom(err);
    }
    *ret_temp = whole;
    return 0;
}

int place_stage_link(int root, const char *path, const char *target, char **ret_temp, struct err *err) {
    const char *name = path;
    CLEANUP(closep) int dir = place_parent(root, path, true, &name);
    char temp[PLACE_TEMP_SIZE];
    char *whole;
    int r = dir < 0 ? dir : place_temp_name(temp);

    if (r == 0)
        r = stage_link_at(dir, name, target, temp);
    if (r < 0)
        return place_err(err, r, "make the symbolic link", path);
    whole = beside(path, name, temp);
    if (!whole) {
        unlinkat(dir, temp, 0);
        return err_oom(err);
    }
    *ret_temp = whole;
    return 0;
}

int place_commit(int root, const char *temp, const char *path, const struct manifest_stamp *expect, struct err *err) {
    const char *name = path, *temp_name = temp;
    CLEANUP(closep) int dir = place_parent(root, path, false, &name);
    CLEANUP(closep) int temp_dir = place_parent(root, temp, false, &temp_name);
    int r = dir < 0 ? dir : temp_dir;

    if (r >= 0)
        r = place_swap(dir, temp_name, name, expect);
    return r < 0 ? place_err(err, r, "write", path) : 0;
}

int place_commit_new(int root, const char *temp, const char *path, struct err *err) {
    const char *name = path, *temp_name = temp;
    CLEANUP(closep) int dir = place_parent(root, path, false, &name);
    CLEANUP(closep) int temp_dir = place_parent(root, temp, false, &temp_name);
    int r = dir < 0 ? dir : temp_dir;

    if (r >= 0)
        r = place_move_new(dir, temp_name, name);
    return r < 0 ? place_err(err, r, "write", path) : 0;
}

void place_discard(int root, const char *temp) {
    const char *name;
    CLEANUP(closep) int dir = place_parent(root, temp, false, &name);

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
    CLEANUP(closep) int dir = place_parent(root, path, true, &name);
    CLEANUP(closep) int folder = -1;
    int r = dir;

    if (r >= 0)
        r = place_make_folder(dir, name);
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
    CLEANUP(closep) int dir = place_parent(root, path, false, &name);
    int r = dir;

    if (r >= 0)
        r = place_take_away(dir, name, expect);
    return r < 0 && r != -ENOENT ? place_err(err, r, "remove", path) : r;
}
