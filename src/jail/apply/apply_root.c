/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of the sandbox. A tmpfs is stacked on top of "/" in the child's own mount namespace and made the
 * current directory, so host paths still resolve as before while it is being filled. Order matters:
 *
 *   1. mount points of everything that comes in step 4, and the private areas themselves, while there is nothing but the tmpfs:
 *      no folder is ever made, and no mode changed, in a tree of the host
 *   2. directories, files, symlinks, read-only host parts
 *   3. the whole tree read-only, nosuid, nodev, private propagation, in one call
 *   4. what must be writable or special: private areas (subdirectories of the same tmpfs, so that one quota
 *      holds for all of them), devices, /proc, the workspace, extra mounts. Private areas on disk are mounted in step 1, so that
 *      places are made in them as in the others, and are let be written again
 *   5. pivot into it, the host's tree is detached
 *
 * Where the root stands on a ground (ground.h), that is the root instead of the tmpfs, and the tmpfs has the private areas only.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/apply/apply_priv.h"
#include "jail/apply/blank.h"
#include "jail/apply/ground.h"
#include "jail/apply/template.h"
#include "jail/plan/plan.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/mountapi.h"

enum { LAZY_UMOUNT = 2 /* MNT_DETACH */, PRIVATE_INODES_MAX = 1000000, BYTES_PER_INODE = 4096 };

bool root_before_sealing(const struct step *s) {
    enum step_kind kind = s->kind;

    return !s->at_home && (kind == STEP_DIR || kind == STEP_SYMLINK || kind == STEP_FILE || kind == STEP_COPY || kind == STEP_RO);
}

static bool has_tree(const struct launch *l) {
    return l->blank && l->blank->tree >= 0;
}

/* Came with the root, which was made before: the pool's tree, or a ground. */
static bool is_there(const struct launch *l, const struct step *s) {
    return has_tree(l) ? template_holds(l->plan, s) : l->ground && ground_holds(l->ground, l->plan, s);
}

static int run_steps(struct launch *l, bool before) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r;

        if (root_before_sealing(s) != before || is_there(l, s))
            continue;
        r = s->at_home ? apply_home(l, s) : apply_step(l, s);
        /* A container that covers parts of its /proc: the kernel then refuses an uncovered one. */
        l->no_userns = s->kind == STEP_PROC && r == -EPERM;
        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: %s '%s'%s%s", step_kind_names[s->kind], s->to,
                           s->kind == STEP_EXTRA ? " from " : "", s->kind == STEP_EXTRA ? s->from : "");
    }
    return 0;
}

/* New and empty: nothing inside has ever seen it. */
static int attach_disk(struct launch *l, const struct step *s) {
    int *tree = &l->trees[s - l->plan->steps], r;

    if (*tree < 0)
        *tree = mount_clone(AT_FDCWD, s->from, false);
    if (*tree < 0)
        return *tree;
    r = mount_restrict(*tree, ATTR_NOSUID_NODEV, false);
    r = r < 0 ? r : mount_attach(*tree, l->made_fd, apply_rel(s));
    if (r < 0 || !apply_is_layered(l))
        return r;
    closep(tree); /* an overlay does not show what is mounted in its layers: it is mounted there again */
    return *tree = mount_clone(l->made_fd, apply_rel(s), false);
}

/* A tmpfs beside the root is attached only where it must be: to detach it waits for all processors. Where /proc will be. */
static int attach_made(struct launch *l) {
    int r = mount_attach(l->made_fd, l->root_fd, "proc");

    l->made_attached = r == 0;
    return r;
}

/* Before Linux 6.15 parts of a detached mount cannot be copied. */
static int clone_made(struct launch *l, const struct step *s) {
    int r = mount_clone(l->made_fd, apply_rel(s), false);

    if (r != -EINVAL || l->made_fd == l->root_fd || l->made_attached)
        return r;
    r = attach_made(l);
    return r < 0 ? r : mount_clone(l->made_fd, apply_rel(s), false);
}

static int make_private(struct launch *l, const struct step *s) {
    int r = dir_make(l->made_fd, apply_rel(s), s->mode, 0755);

    if (r < 0 || s->on_disk)
        return r < 0 ? r : attach_disk(l, s);
    if (fchmodat(l->made_fd, apply_rel(s), s->mode, 0) < 0)
        return -errno;
    return l->trees[s - l->plan->steps] = clone_made(l, s);
}

/* Mount points of everything that comes after sealing; private areas are cloned while still writable. */
int root_make_late_points(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        struct stat st;
        int r = 0;

        if ((has_tree(l) || l->ground) && s->kind != STEP_PRIVATE && s->kind != STEP_OVERLAY && !template_leaves(l->plan, s->to))
            continue;
        if (s->kind == STEP_PRIVATE) {
            r = make_private(l, s);
        } else if (s->kind == STEP_WORKSPACE) {
            r = s->at_home ? 0 : dir_make(l->made_fd, apply_rel(s), 0755, 0755);
        } else if (s->kind == STEP_OVERLAY) {
            r = s->at_home ? 0 : dir_make(l->made_fd, apply_rel(s), 0755, 0755);
            if (r == 0 && (r = apply_overlay(l, s, &l->trees[i])) < 0)
                return r;
        } else if (s->kind == STEP_DEVICE) {
            r = root_make_file(l->made_fd, apply_rel(s), NULL, 0444);
            if (r == -ENOENT &&
                (r = root_make_parent(l->made_fd, apply_rel(s))) == 0) /* a template has no private area that is there before */
                r = root_make_file(l->made_fd, apply_rel(s), NULL, 0444);
        } else if (s->kind == STEP_EXTRA && !s->at_home) {
            /* what root cloned before may lie where the sandbox's id cannot look */
            if ((l->trees[i] >= 0 ? fstat(l->trees[i], &st) : stat(s->from, &st)) == 0)
                r = root_make_point(l->made_fd, apply_rel(s), &st);
            else if (!s->optional)
                return err_sys(&l->err, -errno, "mount '%s'", s->from);
        }
        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: place for %s '%s'", step_kind_names[s->kind], s->to);
    }
    return 0;
}

const char *root_too_old(int r) {
    return r == -ENOSYS ? " (Bawn needs the mount calls of Linux 5.12)" : "";
}

/* "." is the workspace: the supervisor's working directory, which followed us into this namespace, so no path is
 * resolved and nothing can be swapped. Taken before the new root becomes the current directory. */
static int clone_workspace(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r = 0;

        if (s->kind == STEP_WORKSPACE && l->trees[i] < 0)
            r = l->trees[i] = mount_clone(AT_FDCWD, ".", true);
        if (s->kind == STEP_OVERLAY && l->lower < 0) {
            r = l->lower = mount_clone(AT_FDCWD, ".", false);
            r = r < 0 ? r : (l->run = mount_clone(AT_FDCWD, s->from, false));
        }
        l->no_userns = r == -EPERM; /* a filter around us: no mounts */
        if (r < 0)
            return err_sys(&l->err, r, "workspace '%s'%s", l->plan->workspace, root_too_old(r));
    }
    return 0;
}

/* Made where /proc will cover them, so that they cannot be reached by name. Mode 0, on a read-only mount, without any capability:
 * no process inside opens them. */
int root_make_covers(struct launch *l) {
    int r = dir_make(l->root_fd, "proc/dir", 0, 0755);

    r = r < 0 ? r : root_make_file(l->root_fd, "proc/file", NULL, 0);
    return r < 0 ? err_sys(&l->err, r, "covers for hidden files") : 0;
}

int root_open_covers(struct launch *l) {
    l->cover.dir = openat(l->root_fd, "proc/dir", O_PATH | O_CLOEXEC);
    l->cover.file = openat(l->root_fd, "proc/file", O_PATH | O_CLOEXEC);
    return l->cover.dir < 0 || l->cover.file < 0 ? err_sys(&l->err, -errno, "covers for hidden files") : 0;
}

bool root_needs_covers(const struct plan *p) {
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == STEP_HIDE || p->steps[i].kind == STEP_HIDE_AGAIN)
            return true;
    return false;
}

int root_new_tmpfs(struct launch *l) {
    char size[32], inodes[32];
    uint64_t n = l->plan->private_size / BYTES_PER_INODE;
    const struct fs_param params[] = {{"size", size}, {"nr_inodes", inodes}, {"mode", "0755"}};
    struct stat st;
    int fd;

    snprintf(size, sizeof size, "%" PRIu64, l->plan->private_size);
    snprintf(inodes, sizeof inodes, "%" PRIu64, n < 4096 ? 4096 : n > PRIVATE_INODES_MAX ? PRIVATE_INODES_MAX : n);
    fd = mount_new("tmpfs", params, ARRAY_LEN(params), ATTR_NOSUID_NODEV);
    /* Ubuntu's AppArmor restriction lets the user namespace be made and then refuses everything in it. */
    l->no_userns = fd == -EPERM || fd == -EACCES;
    if (fd >= 0 && fstat(fd, &st) == 0)
        l->private_dev = st.st_dev;
    return fd < 0 ? err_sys(&l->err, fd, "sandbox root: mount tmpfs") : fd;
}

int root_attach(struct launch *l) {
    int r = mount_attach(l->root_fd, AT_FDCWD, "/");

    l->no_userns = r == -EPERM || r == -EACCES; /* Landlock or AppArmor around us: no mounts */
    if (r == 0 && fchdir(l->root_fd) < 0)
        r = -errno;
    return r < 0 ? err_sys(&l->err, r, "sandbox root: attach") : 0;
}

static int seal_root(struct launch *l) {
    int r = mount_restrict(l->root_fd, ATTR_NOSUID_NODEV | MOUNT_ATTR_RDONLY, true);

    return r < 0 ? err_sys(&l->err, r, "sandbox root: make read-only%s", root_too_old(r)) : 0;
}

static int build_root(struct launch *l, bool covers) {
    int r = l->root_fd = l->made_fd = root_new_tmpfs(l);

    if (r < 0 || (r = root_attach(l)) < 0 ||
        (covers && ((r = root_make_covers(l)) < 0 || (r = root_open_covers(l)) < 0 || (r = apply_tracked(l)) < 0)) ||
        (r = root_make_late_points(l)) < 0 || (r = run_steps(l, true)) < 0)
        return r;
    return seal_root(l);
}

/* Private areas, and what is made in them, are of a tmpfs that only this sandbox has. An overlay's mask is in there, too, and is filled again while
 * the sandbox runs (covers.c): it stays attached, below /proc. */
static int make_private_areas(struct launch *l) {
    bool overlay = l->plan->mode == WORKSPACE_OVERLAY;
    int r = overlay ? attach_made(l) : 0;

    if (r < 0)
        return err_sys(&l->err, r, "sandbox root: private areas");
    r = root_make_late_points(l);
    r = r < 0 ? r : run_steps(l, true);
    if (r == 0 && l->made_attached && !overlay && syscall(SYS_umount2, "proc", LAZY_UMOUNT) < 0)
        return err_sys(&l->err, -errno, "sandbox root: private areas");
    return r;
}

/* Is sealed already. */
static int take_tree(struct launch *l) {
    int r = l->made_fd = root_new_tmpfs(l);

    l->root_fd = l->blank->tree;
    if (r < 0 || (r = root_attach(l)) < 0 || (root_needs_covers(l->plan) && (r = root_open_covers(l)) < 0))
        return r;
    return make_private_areas(l);
}

/* It could not be mounted before, or cannot be here: a file system that shows its files to one user only, say. */
static bool has_ground(struct launch *l) {
    if (!l->ground || has_tree(l))
        return false;
    l->root_fd = l->plan->ids.by_root ? l->ground_tree : ground_mount(l->ground);
    if (l->root_fd < 0)
        l->ground = NULL;
    return l->ground;
}

static int stand_on_ground(struct launch *l) {
    int r = l->made_fd = root_new_tmpfs(l);

    if (r < 0 || (r = root_attach(l)) < 0 || (root_needs_covers(l->plan) && (r = root_open_covers(l)) < 0))
        return r;
    r = make_private_areas(l);
    return r < 0 ? r : seal_root(l);
}

int apply_root(struct launch *l) {
    int r;

    umask(0);
    r = clone_workspace(l);
    if (r < 0)
        return r;
    l->workspace_fd = l->home_fd = -1;
    r = apply_is_layered(l) ? apply_image_root(l)
        : has_tree(l)       ? take_tree(l)
        : has_ground(l)     ? stand_on_ground(l)
                            : build_root(l, root_needs_covers(l->plan));
    return r < 0 ? r : run_steps(l, false);
}

int apply_template(struct launch *l) {
    int r;

    umask(0);
    r = build_root(l, true);
    return r < 0 ? r : run_steps(l, false);
}

/* pivot_root(".", ".") stacks the old root on the new one, where it can be detached. */
int apply_enter(struct launch *l) {
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return err_sys(&l->err, -errno, "sandbox root: pivot_root");
    if (syscall(SYS_umount2, ".", LAZY_UMOUNT) < 0)
        return err_sys(&l->err, -errno, "sandbox root: detach the host's tree");
    if (apply_is_layered(l) && apply_image_enter(l) < 0)
        return l->err.code;
    return chdir("/") < 0 ? err_sys(&l->err, -errno, "sandbox root: chdir") : 0;
}
