/* SPDX-License-Identifier: Apache-2.0 */
/* The mount API of Linux 5.2 and later. */
#include "os/mountapi.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/fd.h"

/* <sys/mount.h> and <linux/mount.h> cannot be included together on Debian 12; these constants are missing. */
enum { PROPAGATION_PRIVATE = 1 << 18, BIND_RECURSIVE = 4096 | 16384 };

int mount_clone(int dirfd, const char *path, bool recursive) {
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (recursive ? AT_RECURSIVE : 0) | (*path ? 0 : AT_EMPTY_PATH);
    long fd = syscall(SYS_open_tree, dirfd, path, flags);

    return fd < 0 ? -errno : (int)fd;
}

int mount_bind(const char *from, const char *to) {
    return syscall(SYS_mount, from, to, NULL, BIND_RECURSIVE, NULL) < 0 ? -errno : 0;
}

int mount_attach(int mount_fd, int dirfd, const char *path) {
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH);

    return syscall(SYS_move_mount, mount_fd, "", dirfd, path, flags) < 0 ? -errno : 0;
}

int mount_new(const char *fstype, const struct fs_param *params, size_t n, uint64_t attrs) {
    CLEANUP(closep) int fs = (int)syscall(SYS_fsopen, fstype, FSOPEN_CLOEXEC);
    long fd;

    if (fs < 0)
        return -errno;
    for (size_t i = 0; i < n; i++) {
        unsigned cmd = params[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;

        if (syscall(SYS_fsconfig, fs, cmd, params[i].key, params[i].value, 0) < 0)
            return -errno;
    }
    if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, (unsigned)attrs);
    return fd < 0 ? -errno : (int)fd;
}

static int set_attr(int mount_fd, struct mount_attr *attr, bool recursive) {
    unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);

    return syscall(SYS_mount_setattr, mount_fd, "", flags, attr, sizeof *attr) < 0 ? -errno : 0;
}

int mount_restrict(int mount_fd, uint64_t attrs, bool recursive) {
    struct mount_attr attr = {.attr_set = attrs, .propagation = PROPAGATION_PRIVATE};

    return set_attr(mount_fd, &attr, recursive);
}

int mount_loosen(int mount_fd, uint64_t attrs) {
    struct mount_attr attr = {.attr_clr = attrs};

    return set_attr(mount_fd, &attr, false);
}

int mount_idmap(int mount_fd, int userns_fd) {
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};

    return set_attr(mount_fd, &attr, true);
}
