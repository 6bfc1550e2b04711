/* SPDX-License-Identifier: Apache-2.0 */
/* Removes trees. */
#include "os/remove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/dir.h"
#include "os/fd.h"

enum { REMOVE_DEPTH = 64 };

/* A descriptor per level is held, so what is deeper than REMOVE_DEPTH is moved up to the top, where it is met again. */
struct remove_removal {
    int top;
    unsigned long names; /* given to what was moved up */
    bool deeper;         /* something is left for another pass */
    bool progress;       /* this pass removed or moved something */
    int r;               /* first failure */
};

static void failed(struct remove_removal *m, int e) {
    if (e != ENOENT && m->r == 0)
        m->r = -e;
}

static int open_folder(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 || errno != EACCES)
        return fd;
    /* overlayfs leaves work/work with mode 0; the sandbox may do so anywhere */
    if (fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW) < 0) {
        errno = EACCES;
        return -1;
    }
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The new name may be taken by a folder that the sandbox made: then the next pass tries others. */
static void move_up(struct remove_removal *m, int dir, const char *name) {
    char up[40];

    m->deeper = true;
    snprintf(up, sizeof up, ".bawn-moved-%lu", m->names++);
    if (renameat(dir, name, m->top, up) == 0)
        m->progress = true;
    else if (errno == EACCES && fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW) == 0) /* its ".." changes: it must be writable */
        m->progress |= renameat(dir, name, m->top, up) == 0;
}

static void empty_folder(int fd, struct remove_removal *m, int depth);

/* Whether that was all: it was no folder. */
static bool remove_file(struct remove_removal *m, int dir, const char *name) {
    if (unlinkat(dir, name, 0) == 0)
        m->progress = true;
    else if (errno == EISDIR || errno == EPERM) /* EPERM: what POSIX has for EISDIR */
        return false;
    else
        failed(m, errno);
    return true;
}

static void remove_entry(struct remove_removal *m, int dir, const struct dirent *e, int depth) {
    const char *name = e->d_name;
    int below;

    if (e->d_type != DT_DIR && remove_file(m, dir, name))
        return;
    if (depth == REMOVE_DEPTH) {
        move_up(m, dir, name);
        return;
    }
    below = open_folder(dir, name);
    if (below >= 0)
        empty_folder(below, m, depth + 1);
    else
        failed(m, errno == ENOTDIR ? EPERM : errno); /* a file that may not be removed, such as an immutable one */
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        m->progress = true;
    else if (below >= 0 && !(errno == ENOTEMPTY && m->deeper))
        failed(m, errno);
}

/* Takes fd. */
static void empty_folder(int fd, struct remove_removal *m, int depth) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    struct stat st;
    int r = dir_take(fd, &d);

    if (r < 0) {
        failed(m, -r);
        return;
    }
    if (fstat(d.fd, &st) < 0 || (st.st_mode & 0700) != 0700)
        fchmod(d.fd, 0700);
    while ((e = dir_next(&d)))
        remove_entry(m, d.fd, e, depth);
}

int remove_tree(int parent, const char *name) {
    CLEANUP(closep) int top = open_folder(parent, name);
    struct remove_removal m = {.top = top};

    if (top < 0)
        return -errno;
    do {
        int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        m.deeper = m.progress = false;
        m.r = 0;
        if (again < 0)
            return -errno;
        empty_folder(again, &m, 0);
    } while (m.deeper && m.progress);
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return m.r < 0 ? m.r : -errno;
}
