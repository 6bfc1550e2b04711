/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps below the home of a persistent sandbox. It was the inside's in an earlier life of the sandbox, which may have put links where we put folders, and
 * host paths still resolve while the root is being filled: so every path is gone one name at a time and no link is followed.
 *
 *   Mounts (the workspace, caches, what the user asked for) must come: what is in their way is put aside, beside its place.
 *   Everything else (links to caches, .gitconfig) is an offer: where the inside has something of its own, that stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pathtext.h"
#include "jail/apply/apply_priv.h"
#include "jail/apply/jail_apply.h"
#include "jail/plan/plan.h"
#include "os/clock.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/safepath.h"

enum { NSS_FILE_MAX = 1024 * 1024, ASIDE_TRIES = 3 };

static const char *below_home(const struct plan *p, const char *path) {
    return path + strlen(p->home) + 1;
}

/* bawn-init, which has no capabilities, must get through to what is mounted below. dir: O_PATH. */
static int unlock(int dir) {
    char path[40];
    struct stat st;

    if (fstat(dir, &st) < 0)
        return -errno;
    if ((st.st_mode & S_IRWXU) == S_IRWXU)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    return chmod(path, (st.st_mode & 07777) | S_IRWXU) < 0 ? -errno : 0;
}

static int open_home(struct launch *l) {
    if (l->home_fd >= 0)
        return 0;
    l->home_fd = openat(l->root_fd, l->plan->home + 1, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return l->home_fd < 0 ? -errno : unlock(l->home_fd);
}

int apply_home_open(struct launch *l, const char *path) {
    int r = open_home(l);

    return r < 0 ? r : safepath_open(l->home_fd, below_home(l->plan, path), O_PATH | O_DIRECTORY);
}

/* Nothing of the inside's is lost; and it cannot have taken all names beforehand. */
static int put_aside(int dir, const char *name) {
    char aside[NAME_MAX + 1];

    snprintf(aside, sizeof aside, "%.200s.bawn-aside", name);
    for (int i = 0; i < ASIDE_TRIES; i++) {
        if (syscall(SYS_renameat2, dir, name, dir, aside, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
        snprintf(aside, sizeof aside, "%.200s.bawn-aside-%" PRIx64, name, clock_mark());
    }
    return -EEXIST;
}

/* The folder of this name, made if there is nothing. */
static int step_into(int dir, const char *name, mode_t mode, bool must) {
    int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;

    if (fd >= 0)
        return fd;
    if (errno != ENOENT)
        r = errno == ENOTDIR && must ? put_aside(dir, name) : -errno;
    if (r < 0)
        return r;
    if (mkdirat(dir, name, mode) < 0)
        return -errno;
    fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The folder that the last name of the step is in. */
static int walk_to(struct launch *l, const struct step *s, bool must, char name[static NAME_MAX + 1]) {
    const char *rest = below_home(l->plan, s->to);
    CLEANUP(closep) int dir = -1;
    int r = open_home(l);

    if (r < 0)
        return r;
    dir = fcntl(l->home_fd, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -errno;
    while ((r = path_next(&rest, name)) > 0) {
        int next = step_into(dir, name, 0755, must);

        if (next < 0)
            return next;
        closep(&dir);
        dir = next;
        if (must && (r = unlock(dir)) < 0)
            return r;
    }
    return r < 0 ? r : TAKE_FD(dir);
}

static int make_dir(int dir, const char *name, const struct step *s) {
    CLEANUP(closep) int fd = step_into(dir, name, s->mode ? s->mode : 0755, false);

    return fd < 0 ? fd : 0;
}

/* Anew at each start: it holds the certificate authority of this life. */
static int make_copy(struct launch *l, int dir, const char *name, const struct step *s) {
    CLEANUP(closep) int from = openat(l->root_fd, s->from + 1, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(closep) int to = -1;

    if (from < 0 || (unlinkat(dir, name, 0) < 0 && errno != ENOENT))
        return -errno;
    to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, s->mode);
    return to < 0 ? -errno : copy_content(from, to, NSS_FILE_MAX, NULL);
}

/* A file to mount a file on. */
static int file_point(int dir, const char *name) {
    struct stat st;
    bool there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    int fd, r = there && !S_ISREG(st.st_mode) ? put_aside(dir, name) : 0;

    if (r < 0)
        return r;
    if (!there || !S_ISREG(st.st_mode)) {
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
        closep(&fd);
    }
    fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int attach(struct launch *l, int dir, const char *name, const struct step *s) {
    int *tree = &l->trees[s - l->plan->steps], r;
    CLEANUP(closep) int at = -1;
    struct stat st;

    if (*tree < 0)
        *tree = mount_clone(AT_FDCWD, s->from, true);
    if (*tree < 0)
        return s->optional && (s->kind == STEP_EXTRA || *tree == -ENOENT) ? 0 : *tree;
    if (fstat(*tree, &st) < 0)
        return -errno;
    at = S_ISDIR(st.st_mode) ? step_into(dir, name, 0755, true) : file_point(dir, name);
    if (at < 0)
        return at;
    r = s->kind == STEP_OVERLAY
            ? 0
            : mount_restrict(*tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (s->writable ? 0 : MOUNT_ATTR_RDONLY), true);
    return r < 0 ? r : mount_attach(*tree, at, "");
}

static bool is_mount(enum step_kind kind) {
    return kind == STEP_WORKSPACE || kind == STEP_OVERLAY || kind == STEP_EXTRA || kind == STEP_RO;
}

/* The inside has something else there, and may. */
static bool is_theirs(int r) {
    return r == -EEXIST || r == -ENOTDIR || r == -EISDIR || r == -ELOOP;
}

int apply_home(struct launch *l, const struct step *s) {
    char name[NAME_MAX + 1];
    CLEANUP(closep) int dir = walk_to(l, s, is_mount(s->kind), name);
    int r = dir;

    if (dir >= 0)
        r = is_mount(s->kind)         ? attach(l, dir, name, s)
            : s->kind == STEP_DIR     ? make_dir(dir, name, s)
            : s->kind == STEP_SYMLINK ? (symlinkat(s->from, dir, name) < 0 ? -errno : 0)
            : s->kind == STEP_FILE    ? root_make_file(dir, name, s->from, s->mode)
            : s->kind == STEP_COPY    ? make_copy(l, dir, name, s)
                                      : -EOPNOTSUPP;
    return !is_mount(s->kind) && is_theirs(r) ? 0 : MIN_OF(r, 0);
}
