/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges a file with its new version, and back if it was changed meanwhile. */
#include "workspace/copy/place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "os/fd.h"

enum { SWAP_TRIES = 16 };

/* Without replacing anything. A hard link does the same where the file system knows no such rename. */
int place_move_new(int dir, const char *from, const char *to) {
    if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(dir, from, dir, to, 0) < 0)
        return -errno;
    return unlinkat(dir, from, 0) < 0 ? -errno : 0;
}

int place_writers(int fd) {
    /* If another process opens it just now, the default SIGIO would end this one; SIGURG is ignored. */
    if (fcntl(fd, F_SETSIG, SIGURG) < 0)
        return -errno;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN ? 1 : -errno;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}

bool place_is_written(int fd) {
    return place_writers(fd) == 1;
}

static int check_no_writer(int dir, const char *name) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0)
        return errno == EACCES ? 0 : -ESTALE;
    return place_is_written(fd) ? -ESTALE : 0;
}

static int check_stamp(int dir, const char *name, const struct manifest_stamp *expect, bool with_ctime) {
    struct manifest_stamp now;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    now = manifest_stamp_of(&st);
    if (now.ino != expect->ino || now.mtime_ns != expect->mtime_ns || now.size != expect->size || now.mode != expect->mode)
        return -ESTALE;
    return with_ctime && now.ctime_ns != expect->ctime_ns ? -ESTALE : 0;
}

/*
 * For what was moved to a name that no other process knows. First that no writer is left, for no new one can come, then what the last
 * one left: the other way round one could write and close in between. A rename sets the ctime: it says nothing here.
 */
static int check_moved(int dir, const char *name, const struct manifest_stamp *expect) {
    int r = S_ISREG(expect->mode) ? check_no_writer(dir, name) : 0;

    return r < 0 ? r : check_stamp(dir, name, expect, false);
}

/*
 * Takes back an exchange whose old side turned out to be changed. What another process put at `name` meanwhile must not end up in temp
 * and go with it: then it is exchanged once more, and the old one goes, for that came later and from the same side.
 */
static void swap_back(int dir, const char *temp, const char *name, uint64_t new_ino, uint64_t old_ino) {
    struct stat st;

    for (int i = 0; i < SWAP_TRIES; i++) {
        if (renameat2(dir, temp, dir, name, RENAME_EXCHANGE) < 0) {
            place_move_new(dir, temp, name); /* the new one was removed meanwhile; the old one, which was changed, comes back */
            return;
        }
        if (fstatat(dir, temp, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino == new_ino)
            return;
        if (i > 0 && st.st_ino == old_ino) {
            unlinkat(dir, temp, 0);
            return;
        }
    }
}

static int swap_in(int dir, const char *temp, const char *name, const struct manifest_stamp *expect, uint64_t new_ino) {
    int r = check_stamp(dir, name, expect, true);

    if (r < 0)
        return r;
    if (renameat2(dir, temp, dir, name, RENAME_EXCHANGE) < 0) {
        if (errno == ENOENT)
            return -ESTALE;
        if (errno != EINVAL && errno != ENOSYS)
            return -errno;
        /* a file system that cannot exchange: what is written in this moment is not seen */
        return renameat(dir, temp, dir, name) < 0 ? -errno : 0;
    }
    r = check_moved(dir, temp, expect);
    if (r < 0)
        swap_back(dir, temp, name, new_ino, expect->ino);
    else if (unlinkat(dir, temp, 0) < 0)
        r = -errno;
    return r;
}

static int swap_any(int dir, const char *temp, const char *name, const struct manifest_stamp *expect, uint64_t new_ino) {
    int r;

    if (!expect)
        return renameat(dir, temp, dir, name) < 0 ? -errno : 0;
    if (S_ISDIR(expect->mode))
        return -EISDIR;
    if (expect->mode)
        return swap_in(dir, temp, name, expect, new_ino);
    r = place_move_new(dir, temp, name);
    return r == -EEXIST ? -ESTALE : r;
}

int place_swap(int dir, const char *temp, const char *name, const struct manifest_stamp *expect) {
    struct manifest_stamp mine;
    struct stat st;
    int r;

    if (fstatat(dir, temp, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    mine = manifest_stamp_of(&st);
    r = swap_any(dir, temp, name, expect, mine.ino);
    if (r < 0 && check_moved(dir, temp, &mine) == 0)
        unlinkat(dir, temp, 0);
    return r;
}

/* Renamed first: what cannot be opened any more can be compared safely. */
static int take_file_away(int dir, const char *name, const struct manifest_stamp *expect) {
    char temp[PLACE_TEMP_SIZE];
    int r = check_stamp(dir, name, expect, true);

    if (r == 0)
        r = place_temp_name(temp);
    if (r == 0)
        r = place_move_new(dir, name, temp);
    if (r < 0)
        return r == -ENOENT ? -ESTALE : r;
    r = check_moved(dir, temp, expect);
    if (r < 0)
        place_move_new(dir, temp, name);
    else if (unlinkat(dir, temp, 0) < 0)
        r = -errno;
    return r;
}

int place_take_away(int dir, const char *name, const struct manifest_stamp *expect) {
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (expect && (expect->mode & S_IFMT) != (st.st_mode & S_IFMT))
        return -ESTALE;
    if (S_ISDIR(st.st_mode))
        return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? (errno == EEXIST ? -ENOTEMPTY : -errno) : 0;
    if (expect)
        return take_file_away(dir, name, expect);
    return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}
