/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the mask of overlay mode with whiteouts. */
#include "jail/apply/mask.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"

int mask_parents(const char *path, int mask, int lower, mask_fn *fn) {
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t i = 1; i < len; i++) {
        int r;

        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        r = fn(mask, lower, part);
        if (r < 0)
            return r;
    }
    return 0;
}

int mask_dir(int mask, int lower, const char *dir) {
    CLEANUP(closep) int fd = safepath_open(lower, dir, O_PATH | O_DIRECTORY);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    return mkdirat(mask, dir, st.st_mode & 07777) < 0 && errno != EEXIST ? -errno : 0;
}

int mask_time(int mask, int lower, const char *dir) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    struct stat st;

    if (fstatat(lower, dir, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    times[1] = st.st_mtim;
    return utimensat(mask, dir, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int put_whiteout(int mask, const char *path) {
    return mknodat(mask, path, S_IFCHR, 0) < 0 && errno != EEXIST && errno != ENOTDIR ? -errno : 0;
}

int mask_path(int mask, int lower, const char *path) {
    int r = mask_parents(path, mask, lower, mask_dir);

    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) /* the folder is gone since the scan: nothing to hide in it */
        return 0;
    if (r < 0)
        return r;
    return put_whiteout(mask, path);
}

int mask_look(int lower, const char *path, struct stat **ret, size_t *ret_n) {
    CLEANUP(freep) struct stat *looks = NULL;
    char part[PATH_MAX];
    size_t n = 0, len = strlen(path);

    if (len >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t i = 0; i < len; i++)
        n += path[i] == '/';
    looks = calloc(n + 1, sizeof *looks);
    if (!looks)
        return -ENOMEM;
    n = 0;
    for (size_t i = 1; i < len; i++) {
        CLEANUP(closep) int fd = -1;

        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        fd = safepath_open(lower, part, O_PATH | O_DIRECTORY);
        if (fd < 0 || fstat(fd, &looks[n++]) < 0)
            return fd < 0 ? fd : -errno;
    }
    *ret = TAKE_PTR(looks);
    *ret_n = n;
    return 0;
}

int mask_path_as(int mask, const char *path, const struct stat *looks) {
    char part[PATH_MAX];
    size_t n = 0, len = strlen(path);
    int r;

    for (size_t i = 1; i < len; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdirat(mask, part, looks[n++].st_mode & 07777) < 0 && errno != EEXIST)
            return errno == ENOTDIR ? 0 : -errno; /* below a whiteout */
    }
    r = put_whiteout(mask, path);
    for (size_t i = len; r == 0 && i-- > 1;)
        if (path[i] == '/') {
            const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, looks[--n].st_mtim};

            memcpy(part, path, i);
            part[i] = 0;
            utimensat(mask, part, times, AT_SYMLINK_NOFOLLOW);
        }
    return r;
}
