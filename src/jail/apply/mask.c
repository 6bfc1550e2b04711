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

/* "a", "a/b" of "a/b/c", one after the other: *at is 0 first. False: there is no more. The path fits. */
static bool next_parent(const char *path, size_t *at, char part[static PATH_MAX]) {
    const char *slash = path[*at] ? strchr(path + *at + 1, '/') : NULL;

    if (!slash)
        return false;
    *at = (size_t)(slash - path);
    memcpy(part, path, *at);
    part[*at] = 0;
    return true;
}

int mask_parents(const char *path, int mask, int lower, mask_fn *fn) {
    char part[PATH_MAX];
    size_t at = 0;
    int r = strlen(path) < sizeof part ? 0 : -ENAMETOOLONG;

    while (r >= 0 && next_parent(path, &at, part))
        r = fn(mask, lower, part);
    return MIN_OF(r, 0);
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
    size_t n = 0, at = 0;

    if (strlen(path) >= sizeof part)
        return -ENAMETOOLONG;
    for (const char *p = path; *p; p++)
        n += *p == '/';
    looks = calloc(n + 1, sizeof *looks);
    if (!looks)
        return -ENOMEM;
    n = 0;
    while (next_parent(path, &at, part)) {
        CLEANUP(closep) int fd = safepath_open(lower, part, O_PATH | O_DIRECTORY);

        if (fd < 0 || fstat(fd, &looks[n++]) < 0)
            return fd < 0 ? fd : -errno;
    }
    *ret = TAKE_PTR(looks);
    *ret_n = n;
    return 0;
}

int mask_path_as(int mask, const char *path, const struct stat *looks) {
    char part[PATH_MAX];
    size_t n = 0, at = 0;
    int r;

    while (next_parent(path, &at, part))
        if (mkdirat(mask, part, looks[n++].st_mode & 07777) < 0 && errno != EEXIST)
            return errno == ENOTDIR ? 0 : -errno; /* below a whiteout */
    r = put_whiteout(mask, path);
    for (n = at = 0; r == 0 && next_parent(path, &at, part);) { /* now that nothing is made in them any more */
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, looks[n++].st_mtim};

        utimensat(mask, part, times, AT_SYMLINK_NOFOLLOW);
    }
    return r;
}
