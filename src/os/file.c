/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, and the one-line files of the kernel. */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"

enum { STEP = 16 * 1024, KERNEL_FILE_MAX = 8192, TEMPORARY_SIZE = NAME_MAX + 1, NONCE_LEN = 16 };

/* -- reading ------------------------------------------------------------------------------------------------------------ */

/* Room for `more` bytes and the NUL, if there is none left. Files are read into it directly, without another copy. */
static int make_room(struct buf *b, size_t more) {
    size_t cap = b->len + more + 1;
    char *grown;

    if (b->len + 1 < b->cap)
        return 0;
    grown = realloc(b->data, cap);
    if (!grown) {
        b->failed = true;
        return -ENOMEM;
    }
    b->data = grown;
    b->cap = cap;
    return 0;
}

/* One byte more than the ceiling allows is asked for: that tells a file that fits from one that does not. */
static ssize_t read_part(int fd, size_t step, struct buf *b) {
    size_t left = b->ceiling - b->len;
    int r = make_room(b, MIN_OF(step, left + 1));
    ssize_t n = r < 0 ? r : fd_read_some(fd, b->data + b->len, MIN_OF(b->cap - b->len - 1, left + 1));

    if (n > 0 && (size_t)n > left) {
        b->failed = true;
        n = -EFBIG;
    }
    b->len += n > 0 ? (size_t)n : 0;
    if (b->data)
        b->data[b->len] = 0;
    return n;
}

/* The expected size and one byte, so that the end is seen without growing. More if it grew since, or does not tell its size. */
static int read_rest(int fd, size_t expected, struct buf *b) {
    size_t step = expected ? expected + 1 : STEP;
    ssize_t n;

    while ((n = read_part(fd, step, b)) > 0)
        step = MAX_OF((size_t)STEP, b->len);
    return (int)n;
}

int file_read_fd(int fd, unsigned flags, struct buf *ret) {
    struct stat st = {.st_size = STEP};

    if (!buf_ok(ret))
        return -ENOMEM;
    if (!(flags & FILE_ANY)) {
        if (fstat(fd, &st) < 0)
            return -errno;
        if (!S_ISREG(st.st_mode))
            return -EINVAL;
        if ((uint64_t)st.st_size > ret->ceiling - ret->len)
            return -EFBIG;
    }
    return read_rest(fd, (size_t)st.st_size, ret);
}

int file_read_at(int dirfd, const char *path, unsigned flags, struct buf *ret) {
    int how = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (flags & FILE_FOLLOW ? 0 : O_NOFOLLOW);
    CLEANUP(closep) int fd = openat(dirfd, path, how);

    return fd < 0 ? -errno : file_read_fd(fd, flags, ret);
}

int file_read(const char *path, unsigned flags, struct buf *ret) {
    return file_read_at(AT_FDCWD, path, flags, ret);
}

int file_err(struct err *err, int r, const char *path, size_t max) {
    switch (r) {
    case -EFBIG:
        return err_set(err, r, "'%s' is larger than %zu bytes", path, max);
    case -EINVAL:
        return err_set(err, r, "'%s' is not a regular file", path);
    case -ELOOP:
        return err_set(err, r, "'%s' is a link, which is not followed", path);
    case -ENOMEM:
        return err_oom(err);
    default:
        return err_sys(err, r, "read '%s'", path);
    }
}

/* -- writing ------------------------------------------------------------------------------------------------------------ */

static int write_file(int dirfd, const char *name, int how, mode_t mode, unsigned flags, const void *data, size_t len) {
    CLEANUP(closep) int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | how, mode);
    int r;

    if (fd < 0)
        return -errno;
    r = fd_write_all(fd, data, len);
    if (r == 0 && (flags & FILE_SYNC) && fsync(fd) < 0)
        r = -errno;
    if (r < 0)
        unlinkat(dirfd, name, 0);
    return r;
}

static int temporary_name(const char *name, unsigned flags, char ret[static TEMPORARY_SIZE]) {
    uint64_t nonce;

    if (strlen(name) + 2 + NONCE_LEN >= TEMPORARY_SIZE)
        return -ENAMETOOLONG;
    if (flags & FILE_SOLE) {
        snprintf(ret, TEMPORARY_SIZE, ".%s.new", name);
        return 0;
    }
    if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
        return -EIO;
    snprintf(ret, TEMPORARY_SIZE, ".%s.%016" PRIx64, name, nonce);
    return 0;
}

/* NFS and some FUSE file systems do not know RENAME_NOREPLACE, and others have no links: one of both is there. */
static int rename_new(int dirfd, const char *temporary, const char *name) {
    if (syscall(SYS_renameat2, dirfd, temporary, dirfd, name, RENAME_NOREPLACE) == 0) /* musl has no function for it */
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(dirfd, temporary, dirfd, name, 0) < 0)
        return -errno;
    unlinkat(dirfd, temporary, 0);
    return 0;
}

int file_replace_at(int dirfd, const char *name, mode_t mode, unsigned flags, const void *data, size_t len) {
    char temporary[TEMPORARY_SIZE];
    int r = temporary_name(name, flags, temporary);

    if (r < 0)
        return r;
    r = write_file(dirfd, temporary, flags & FILE_SOLE ? O_TRUNC : O_EXCL, mode, flags, data, len);
    if (r < 0)
        return r;
    if (flags & FILE_NEW)
        r = rename_new(dirfd, temporary, name);
    else
        r = renameat(dirfd, temporary, dirfd, name) < 0 ? -errno : 0;
    if (r < 0)
        unlinkat(dirfd, temporary, 0);
    return r;
}

int file_create_at(int dirfd, const char *name, mode_t mode, const void *data, size_t len) {
    return write_file(dirfd, name, O_EXCL, mode, 0, data, len);
}

/* -- /proc, /sys and cgroups -------------------------------------------------------------------------------------------- */

ssize_t file_line(int dirfd, const char *path, char *ret, size_t size) {
    ssize_t n = fd_read_file_at(dirfd, path, ret, size);

    ret[n < 0 ? 0 : strcspn(ret, "\n")] = 0;
    return n < 0 ? n : (ssize_t)strlen(ret);
}

static const char *after_key(const char *text, const char *key) {
    size_t len = strlen(key);

    for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, key, len) == 0 && p[len] == ' ')
            return p + len + 1;
    return NULL;
}

int file_number(int dirfd, const char *path, const char *key, uint64_t *ret) {
    char text[KERNEL_FILE_MAX], *end;
    ssize_t n = fd_read_file_at(dirfd, path, text, sizeof text);
    const char *at = n < 0 ? NULL : key ? after_key(text, key) : text;
    uint64_t v;

    if (!at)
        return n < 0 ? (int)n : -ENODATA;
    if (str_starts(at, "max") || str_starts(at, "-1")) { /* cgroup2's and cgroup1's word for it */
        *ret = UINT64_MAX;
        return 0;
    }
    errno = 0;
    v = strtoull(at, &end, 10);
    if (end == at || errno || *at < '0' || *at > '9')
        return -EINVAL;
    *ret = v;
    return 0;
}
