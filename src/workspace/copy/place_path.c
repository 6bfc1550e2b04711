/* SPDX-License-Identifier: Apache-2.0 */
/* Paths for place.c: how a folder below the root is reached, and names of files that are on their way. */
#include "workspace/copy/place_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"

enum { TEMP_DIGITS = 16, SHOWN_MAX = 64 * 1024 };

int place_err(struct err *err, int r, const char *what, const char *path) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(SHOWN_MAX);

    buf_add_printable(&shown, path);
    switch (r) {
    case -ESTALE:
        return err_set(err, r, "cannot %s '%.800s': it was changed meanwhile", what, buf_str(&shown));
    case -ELOOP:
        return err_set(err, r, "cannot %s '%.800s': a symbolic link is in the way", what, buf_str(&shown));
    default:
        return err_sys(err, r, "cannot %s '%.800s'", what, buf_str(&shown));
    }
}

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
int place_make_folder(int dir, const char *name) {
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
            r = place_make_folder(dir, part);
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

int place_parent(int root, const char *path, bool create, const char **ret_name) {
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
    CLEANUP(closep) int dir = place_parent(root, path, false, &name);

    if (dir < 0)
        return dir;
    return fstatat(dir, name, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int place_temp_name(char ret[static PLACE_TEMP_SIZE]) {
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -EIO;
    snprintf(ret, PLACE_TEMP_SIZE, PLACE_TEMP "%016jx", (uintmax_t)random);
    return 0;
}

bool place_is_temp(const char *name) {
    size_t len = sizeof PLACE_TEMP - 1;

    return str_starts(name, PLACE_TEMP) && strlen(name + len) == TEMP_DIGITS &&
           strspn(name + len, "0123456789abcdef") == TEMP_DIGITS;
}
