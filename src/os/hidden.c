/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that appear and vanish at once. */
#include "os/hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/user/idspace.h"

static const char new_prefix[] = ".new-", gone_prefix[] = ".gone-";

int hidden_lock(int parent) {
    while (flock(parent, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

void hidden_unlock(int parent) {
    flock(parent, LOCK_UN);
}

static int random_name(const char *prefix, char ret[static HIDDEN_NAME_SIZE]) {
    uint64_t n;

    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
        return -EIO;
    snprintf(ret, HIDDEN_NAME_SIZE, "%s%016" PRIx64, prefix, n);
    return 0;
}

/* -errno if it is in use. */
static int open_locked(int parent, const char *name) {
    CLEANUP(closep) int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? TAKE_FD(fd) : -errno;
}

int hidden_retire(int parent, int fd, const char *name, char ret_gone[static HIDDEN_NAME_SIZE]) {
    int r = random_name(gone_prefix, ret_gone);

    if (r < 0)
        return r;
    flock(fd, LOCK_EX | LOCK_NB); /* keeps sweepers away; if one should be here, two remove it */
    return renameat(parent, name, parent, ret_gone) < 0 ? -errno : 0;
}

int hidden_publish(int parent, const char *hidden, const char *name) {
    if (renameat(parent, hidden, parent, name) == 0)
        return 0;
    return errno == ENOTEMPTY || errno == ENOTDIR ? -EEXIST : -errno;
}

int hidden_open(int parent, const char *what, const char *name, struct err *err) {
    CLEANUP(closep) int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? -ENOENT : err_sys(err, -errno, "open the folder of %s '%s'", what, name);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "%s '%s' belongs to user %u, not to you", what, name, (unsigned)st.st_uid);
    return TAKE_FD(fd);
}

bool hidden_is_in_place(int parent, const char *name, int fd) {
    struct stat at, ours;

    return fstatat(parent, name, &at, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &ours) == 0 && at.st_dev == ours.st_dev &&
           at.st_ino == ours.st_ino;
}

int hidden_remove(int parent, int fd, const char *what, const char *name, struct err *err) {
    char gone[HIDDEN_NAME_SIZE];
    int r;

    if (!hidden_is_in_place(parent, name, fd))
        return err_set(err, -ENOENT, "%s '%s' is gone", what, name);
    r = hidden_retire(parent, fd, name, gone);
    if (r < 0)
        return err_sys(err, r, "remove %s '%s'", what, name);
    r = idspace_remove_tree(parent, gone);
    return r < 0 && r != -ENOENT ? err_sys(err, r, "remove %s '%s': something is left in '%s'", what, name, gone) : 0;
}

/* -- what crashes left -------------------------------------------------------------------------------------------------- */

static int each_with_prefix(int parent, const char *prefix, int (*each)(int parent, const char *name)) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int n = 0;

    dir_open_at(parent, ".", &d);
    while ((e = dir_next(&d)))
        if (str_starts(e->d_name, prefix))
            n += each(parent, e->d_name);
    return n;
}

static int retire_leftover(int parent, const char *name) {
    CLEANUP(closep) int fd = open_locked(parent, name);
    char gone[HIDDEN_NAME_SIZE];

    return fd >= 0 && hidden_retire(parent, fd, name, gone) == 0;
}

static int remove_leftover(int parent, const char *name) {
    CLEANUP(closep) int fd = open_locked(parent, name);

    return fd >= 0 && idspace_remove_tree(parent, name) == 0;
}

int hidden_sweep_gone(int parent) {
    return each_with_prefix(parent, gone_prefix, remove_leftover);
}

int hidden_sweep(int parent) {
    if (flock(parent, LOCK_EX | LOCK_NB) == 0) {
        each_with_prefix(parent, new_prefix, retire_leftover);
        hidden_unlock(parent);
    }
    return hidden_sweep_gone(parent);
}

/* -- a new one ---------------------------------------------------------------------------------------------------------- */

int hidden_make(int parent, char ret_name[static HIDDEN_NAME_SIZE]) {
    int r = random_name(new_prefix, ret_name);

    if (r < 0)
        return r;
    each_with_prefix(parent, new_prefix, retire_leftover);
    dir_spread(parent);
    return mkdirat(parent, ret_name, 0700) < 0 ? -errno : open_locked(parent, ret_name);
}
