/* SPDX-License-Identifier: Apache-2.0 */
/* openat2(2) with RESOLVE_BENEATH. */
#include "os/safepath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fd.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* <linux/openat2.h> in full; Debian 11 and musl do not have it. */
struct how {
    uint64_t flags, mode, resolve;
};
enum { RESOLVE_NO_MAGICLINKS = 2, RESOLVE_NO_SYMLINKS = 4, RESOLVE_BENEATH = 8 };

/* O_DIRECTORY|O_NOFOLLOW calls a symbolic link "not a directory". */
static bool is_link(int dir, const char *name, int r) {
    char c;

    return r == -ENOTDIR && readlinkat(dir, name, &c, 1) >= 0;
}

static int walk(int dirfd, const char *path, int flags) {
    CLEANUP(closep) int dir = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    char part[NAME_MAX + 1];

    while (dir >= 0) {
        size_t len = strcspn(path, "/");
        bool last = path[len] == 0;
        int next;

        if (len == 0 || len > NAME_MAX)
            return -EINVAL;
        memcpy(part, path, len);
        part[len] = 0;
        if (strcmp(part, "..") == 0)
            return -EXDEV;
        next = openat(dir, part, (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0) {
            int r = -errno;

            return is_link(dir, part, r) ? -ELOOP : r;
        }
        if (last)
            return next;
        close(dir);
        dir = next;
        path += len + 1;
    }
    return -errno;
}

int safepath_open(int dirfd, const char *path, int flags) {
    struct how how = {.flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
                      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof how);

    if (fd >= 0)
        return (int)fd;
    return errno == ENOSYS || errno == EPERM ? walk(dirfd, path, flags) : -errno;
}
