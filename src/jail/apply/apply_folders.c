/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer of folders between a folder of the host and what the inside writes (apply_system.c). The host's folders belong to its root, whom a user's
 * sandbox does not have, and overlayfs asks the topmost layer who owns a folder. So each folder is there once more, empty,
 * with the sandbox's owner. They are in memory: 20 000 of them take a tenth of a second and 20 MiB, on a disk seconds. Raw calls and a small buffer: this
 * runs on the supervisor's memory, on a small stack.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/apply/apply_priv.h"
#include "os/fd.h"

enum { FOLDERS_DEPTH_MAX = 40, FOLDERS_BUFFER = 2048 };

struct folders_entry { /* struct linux_dirent64 */
    uint64_t ino;
    int64_t off;
    uint16_t len;
    uint8_t type;
    char name[];
};

static int folders_walk(int from, int to, unsigned depth);

/* What cannot be looked at stays as it is below; a file system that does not tell types has no folders here. */
static int copy_folder(int from, int to, const char *name, unsigned depth) {
    CLEANUP(closep) int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), target = -1;
    struct stat st;

    if (source < 0 || fstat(source, &st) < 0 || depth == FOLDERS_DEPTH_MAX)
        return 0;
    if (mkdirat(to, name, (st.st_mode & 0777) | S_IRWXU) < 0)
        return -errno;
    target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return target < 0 ? -errno : folders_walk(source, target, depth + 1);
}

static int folders_walk(int from, int to, unsigned depth) { /* NOLINT(misc-no-recursion): FOLDERS_DEPTH_MAX */
    alignas(struct folders_entry) char buffer[FOLDERS_BUFFER];
    long n;
    int r = 0;

    while (r == 0 && (n = syscall(SYS_getdents64, from, buffer, sizeof buffer)) > 0)
        for (long at = 0; r == 0 && at < n;) {
            const struct folders_entry *e = (const struct folders_entry *)(const void *)(buffer + at);

            at += e->len;
            if (e->type == DT_DIR && !str_eq(e->name, ".") && !str_eq(e->name, ".."))
                r = copy_folder(from, to, e->name, depth);
        }
    return r < 0 ? r : n < 0 ? -errno : 0;
}

int system_folders(const char *from, int dir, const char *name) {
    CLEANUP(closep) int source = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC), target = -1;

    if (source < 0 || mkdirat(dir, name, 0755) < 0)
        return -errno;
    target = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return target < 0 ? -errno : folders_walk(source, target, 0);
}
