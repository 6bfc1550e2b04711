/* SPDX-License-Identifier: Apache-2.0 */
/* Folders: reading and making them. */
#include "os/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/strv.h"
#include "os/fd.h"

void dir_done(struct dir *d) {
    if (d->d)
        closedir(d->d);
    *d = (struct dir)DIR_INIT;
}

int dir_take(int fd, struct dir *ret) {
    CLEANUP(closep) int owned = fd;

    *ret = (struct dir){.fd = -1, .error = MIN_OF(fd, 0)};
    if (fd < 0)
        return fd;
    ret->d = fdopendir(owned);
    if (!ret->d)
        return ret->error = -errno;
    ret->fd = TAKE_FD(owned);
    return 0;
}

static int open_folder(int dirfd, const char *path, int flags) {
    int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);

    return fd < 0 ? -errno : fd;
}

int dir_open_at(int dirfd, const char *path, struct dir *ret) {
    return dir_take(open_folder(dirfd, path, O_NOFOLLOW), ret);
}

int dir_open_linked(const char *path, struct dir *ret) {
    return dir_take(open_folder(AT_FDCWD, path, 0), ret);
}

const struct dirent *dir_next(struct dir *d) {
    const struct dirent *e;

    if (!d->d)
        return NULL;
    do {
        errno = 0;
        e = readdir(d->d);
    } while (e && (str_eq(e->d_name, ".") || str_eq(e->d_name, "..")));
    d->error = e ? 0 : -errno;
    return e;
}

int dir_type(const struct dir *d, const struct dirent *e) {
    struct stat st;

    if (e->d_type != DT_UNKNOWN)
        return e->d_type;
    return fstatat(d->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : (int)IFTODT(st.st_mode);
}

int dir_names(int dirfd, const char *path, struct strv *ret) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    CLEANUP(strv_done) struct strv names = {0};
    const struct dirent *e;
    int r = dir_open_at(dirfd, path, &d);

    while (r == 0 && (e = dir_next(&d)))
        r = strv_add(&names, e->d_name) < 0 ? -ENOMEM : 0;
    r = r < 0 ? r : d.error;
    if (r < 0)
        return r;
    if (names.len)
        qsort(names.v, names.len, sizeof *names.v, str_compare);
    *ret = TAKE(names, (struct strv){0});
    return 0;
}

/* 1: its parent is missing. A read-only file system may say so before it says that the folder is there. */
static int make_one(int dirfd, const char *path, mode_t mode) {
    if (mkdirat(dirfd, path, mode) == 0 || errno == EEXIST)
        return 0;
    if (errno == EROFS && faccessat(dirfd, path, F_OK, 0) == 0)
        return 0;
    return errno == ENOENT ? 1 : -errno;
}

/* Up to the first that is there, or can be made, and down again: mostly a parent or none is missing. */
int dir_make(int dirfd, const char *path, mode_t mode, mode_t parents) {
    char part[PATH_MAX];
    size_t len = strlen(path), at = len;
    int r;

    if (len >= sizeof part)
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    while ((r = make_one(dirfd, part, at == len ? mode : parents)) > 0) {
        while (at > 0 && path[--at] != '/')
            ;
        if (at == 0)
            return -ENOENT;
        part[at] = 0;
    }
    while (r == 0 && at < len) {
        part[at] = '/';
        at += 1 + strcspn(path + at + 1, "/");
        part[at] = 0;
        r = make_one(dirfd, part, at == len ? mode : parents);
    }
    return r > 0 ? -ENOENT : r;
}

void dir_spread(int fd) {
    enum { TOPDIR = 0x00020000 }; /* EXT4_TOPDIR_FL; `chattr +T` */
    int flags = 0;

    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || flags & TOPDIR)
        return;
    flags |= TOPDIR;
    ioctl(fd, FS_IOC_SETFLAGS, &flags);
}
