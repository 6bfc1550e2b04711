/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workspace of overlay mode: upper/ of the run's folder above a mask above the host's folder.
 *
 * The mask is a folder of the sandbox's tmpfs in which a whiteout stands for everything that is hidden: what is hidden is
 * absent, however many files that are, and what the sandbox creates under such a name lands in upper/ and stays there.
 * Layers are attached for a moment where /proc will be mounted later, because overlayfs takes paths; it keeps its own
 * private mounts of them. `volatile`: a run's upper/ is worth no fsync; its work/ is emptied before the next one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/apply/jail_apply.h"
#include "jail/apply/mask.h"
#include "jail/plan/plan.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/safepath.h"

enum { LAZY_UMOUNT = 2 /* MNT_DETACH */, SUBSTITUTE_MAX = 16 * 1024 * 1024 };

/* A copy, so that a change on the host is not seen half, and the file's own name stays hidden. */
static int substitute(int mask, int lower, const char *path, const char *shown) {
    CLEANUP(closep) int from = safepath_open(lower, shown, O_RDONLY | O_NONBLOCK);
    CLEANUP(closep) int to = -1;
    struct stat st;
    int r = from < 0 ? from : mask_parents(path, mask, lower, mask_dir);

    if (r < 0)
        return r;
    if (fstat(from, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    to = openat(mask, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, st.st_mode & 0777);
    return to < 0 ? -errno : copy_content(from, to, SUBSTITUTE_MAX, NULL);
}

/* The part of a step's path that is below the workspace. */
static const char *below(const struct plan *p, const struct step *s) {
    return s->to + strlen(p->workspace) + 1;
}

/* A place for a mount inside the workspace, without a change in upper/. */
static int mount_point(int mask, int lower, const char *path, bool is_dir) {
    CLEANUP(closep) int file = -1;
    int r = mask_parents(path, mask, lower, mask_dir);

    if (r < 0)
        return r;
    unlinkat(mask, path, 0); /* a whiteout: what is mounted by name is not hidden by a pattern */
    if (is_dir)
        return mkdirat(mask, path, 0755) < 0 && errno != EEXIST ? -errno : 0;
    file = openat(mask, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    return file < 0 && errno != EEXIST ? -errno : 0;
}

static int fill_mask(struct launch *l, int mask, int lower) {
    const struct plan *p = l->plan;
    struct stat st;

    for (size_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        int r = 0;

        if (s->kind == STEP_SUBSTITUTE)
            r = substitute(mask, lower, below(p, s), s->from);
        else if (s->kind == STEP_WHITEOUT)
            r = s->tracked.n ? mask_tracked(mask, lower, s) : mask_path(mask, lower, s->from);
        else if (s->kind == STEP_EXTRA && str_below(s->to, p->workspace) &&
                 (r = (l->trees[i] >= 0 ? fstat(l->trees[i], &st) : stat(s->from, &st))) == 0)
            r = mount_point(mask, lower, below(p, s), S_ISDIR(st.st_mode));
        else if (r < 0)
            r = -errno;
        if (r < 0)
            return err_sys(&l->err, r, "%s '%s'%s%s", step_kind_names[s->kind], s->to, s->kind == STEP_SUBSTITUTE ? " from " : "",
                           s->kind == STEP_SUBSTITUTE ? s->from : "");
    }
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == STEP_WHITEOUT || p->steps[i].kind == STEP_SUBSTITUTE)
            mask_parents(below(p, &p->steps[i]), mask, lower, mask_time);
    return 0;
}

static int make_mask(struct launch *l) {
    CLEANUP(closep) int lower = openat(l->root_fd, "proc/lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(closep) int mask = openat(l->root_fd, "proc/mask", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    int r;

    if (lower < 0 || mask < 0 || fstat(lower, &st) < 0)
        return err_sys(&l->err, -errno, "layers of the workspace");
    if (fchmod(mask, st.st_mode & 07777) < 0)
        return err_sys(&l->err, -errno, "layers of the workspace");
    r = fill_mask(l, mask, lower);
    return r < 0 ? r : mask_time(mask, lower, ".");
}

static int attach_layers(struct launch *l) {
    static const char *const dirs[] = {"proc", "proc/lower", "proc/run", "proc/mask"};
    int r;

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        if (mkdirat(l->root_fd, dirs[i], 0755) < 0 && errno != EEXIST)
            return -errno;
    r = mount_attach(l->lower, l->root_fd, dirs[1]);
    return r < 0 ? r : mount_attach(l->run, l->root_fd, dirs[2]);
}

/* The current directory is the new root. */
int apply_overlay(struct launch *l, const struct step *s, int *ret_mount) {
    static const struct fs_param params[] = {{"userxattr", NULL},
                                             {"volatile", NULL},
                                             {"lowerdir", "proc/mask:proc/lower"},
                                             {"upperdir", "proc/run/upper"},
                                             {"workdir", "proc/run/work"}};
    CLEANUP(closep) int fd = -1;
    int r = attach_layers(l);

    if (r < 0)
        return err_sys(&l->err, r, "layers of the workspace");
    r = make_mask(l);
    if (r < 0)
        return r;
    fd = mount_new("overlay", params, ARRAY_LEN(params), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (fd < 0)
        return err_sys(&l->err, fd, "overlay of '%s' (needs overlayfs in user namespaces, Linux 5.11; else use --workspace sync)",
                       s->to);
    if (syscall(SYS_umount2, "proc/lower", LAZY_UMOUNT) < 0 || syscall(SYS_umount2, "proc/run", LAZY_UMOUNT) < 0)
        return err_sys(&l->err, -errno, "layers of the workspace");
    *ret_mount = TAKE_FD(fd);
    return 0;
}
