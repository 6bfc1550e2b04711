/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: reading, writing, small files. */
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

void closep(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

ssize_t fd_pread_full(int fd, void *buf, size_t len, off_t at) {
    size_t done = 0;

    while (done < len) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, at + (off_t)done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

ssize_t fd_read_some(int fd, void *buf, size_t len) {
    ssize_t n;

    do
        n = read(fd, buf, len);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t fd_read_full(int fd, void *buf, size_t len) {
    size_t done = 0;

    while (done < len) {
        ssize_t n = fd_read_some(fd, (char *)buf + done, len - done);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int fd_write_all(int fd, const void *buf, size_t len) {
    const char *p = buf;

    while (len) {
        ssize_t n = write(fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t fd_read_file_at(int dirfd, const char *path, char *buf, size_t size) {
    CLEANUP(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t len = 0;

    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = fd_read_some(fd, buf + len, size - len);

        if (n < 0)
            return n;
        len += (size_t)n;
        if (n == 0)
            break;
        if (len == size)
            return -EFBIG;
    }
    buf[len] = 0;
    return (ssize_t)len;
}

int fd_write_file_at(int dirfd, const char *path, const char *text) {
    CLEANUP(closep) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    size_t len = strlen(text);
    ssize_t n;

    if (fd < 0)
        return -errno;
    n = write(fd, text, len);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int fd_pipe(int *ret_read, int *ret_write) {
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

int fd_memory(const char *name, const void *data, size_t len) {
    CLEANUP(closep) int fd = memfd_create(name, MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);

    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(fd);
}

/* For kernels before 5.9, which have no close_range(2). */
static int close_from_proc(unsigned first) {
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;

    if (!d)
        return -errno;
    while ((e = readdir(d))) {
        char *end;
        unsigned long n = strtoul(e->d_name, &end, 10);

        if (*end == 0 && end != e->d_name && n >= first && (int)n != dirfd(d))
            close((int)n);
    }
    closedir(d);
    return 0;
}

void fd_close_all(const int *fds, size_t n) {
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}

int fd_close_from(unsigned first) {
    if (syscall(SYS_close_range, first, INT_MAX, 0) == 0) /* the highest there can be; gVisor takes no more */
        return 0;
    return errno == ENOSYS ? close_from_proc(first) : -errno;
}

int fd_move_above(int fd, int min) {
    int moved;

    if (fd >= min)
        return fd;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, min);
    if (moved < 0)
        moved = -errno;
    close(fd);
    return moved;
}
