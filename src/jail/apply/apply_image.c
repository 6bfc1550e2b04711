/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a sandbox with an image (jail/plan/plan_image.h): an overlay of its layers, without an upper one unless the system is writable
 * (apply_system.c). As in apply_root.c a tmpfs is
 * stacked on "/" first. It has
 *
 *   top/    the topmost layer: places of all mounts, files and links of ours, private areas
 *   l/N     the layers: links to their folders, or, by root, mounts that map their owner
 *   root/   the overlay, which becomes the root
 *   proc/   what apply_root.c puts where /proc will be: covers, and the mask of a workspace's overlay
 *
 * Overlayfs does not want its layers to change while it is mounted. Of top/ only private areas do, and these are covered by mounts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/apply_priv.h"
#include "os/fd.h"
#include "os/mountapi.h"

enum { OPTIONS_SIZE = 2048, NAME_SIZE = 16 };

static bool is_small_step(enum step_kind kind) {
    return kind == STEP_DIR || kind == STEP_SYMLINK || kind == STEP_FILE;
}

/* A read-only mount finds its place in the topmost layer. */
static int make_ro_point(struct launch *l, size_t i) {
    const struct step *s = &l->plan->steps[i];
    struct stat st;

    if ((l->trees[i] >= 0 ? fstat(l->trees[i], &st) : stat(s->from, &st)) < 0)
        return errno == ENOENT && s->optional ? 0 : -errno;
    return root_make_point(l->made_fd, apply_rel(s), &st);
}

static int fill_top(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r = 0;

        if (s->at_home)
            continue;
        if (is_small_step(s->kind))
            r = apply_step(l, s);
        else if (s->kind == STEP_RO)
            r = make_ro_point(l, i);
        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: %s '%s'", step_kind_names[s->kind], s->to);
    }
    return 0;
}

static int add_layer(struct launch *l, size_t i, size_t n, char *options, size_t *len) {
    const struct step *s = &l->plan->steps[i];
    char name[NAME_SIZE];
    int r = 0;

    snprintf(name, sizeof name, "l/%zu", n);
    if (l->trees[i] < 0)
        r = symlinkat(s->from, l->root_fd, name) < 0 ? -errno : 0;
    else if (mkdirat(l->root_fd, name, 0755) < 0)
        r = -errno;
    else
        r = mount_attach(l->trees[i], l->root_fd, name);
    *len += (size_t)snprintf(options + *len, OPTIONS_SIZE - *len, ":%s", name);
    return r < 0 ? r : *len >= OPTIONS_SIZE ? -E2BIG : 0;
}

static const char with_upper[] = ",volatile,upperdir=s/root/upper,workdir=s/root/work";

/* The old call, because fsconfig(2) takes no more than 256 bytes. The current directory is the tmpfs. */
static int mount_layers(struct launch *l) {
    const bool upper = l->plan->writable_system;
    char options[OPTIONS_SIZE] = "userxattr,lowerdir=top";
    size_t len = strlen(options), n = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < l->plan->n_steps; i++)
        if (l->plan->steps[i].kind == STEP_LAYER)
            r = add_layer(l, i, n++, options, &len);
    if (r == 0 && upper)
        len += (size_t)snprintf(options + len, sizeof options - len, "%s", with_upper);
    if (r == 0 && len >= sizeof options)
        r = -E2BIG;
    if (r == 0 && mount("overlay", "root", "overlay", MS_NOSUID | MS_NODEV | (upper ? 0 : MS_RDONLY), options) < 0)
        r = -errno;
    return r < 0 ? err_sys(&l->err, r, "layers of %s%s' (needs overlayfs in user namespaces, Linux 5.11)",
                           l->plan->image ? "image '" : "the system '", l->plan->image ? l->plan->image->name : "/")
                 : 0;
}

/* What is in proc/ of the tmpfs is found there by covers.c. */
static int enter_overlay(struct launch *l, int tmpfs) {
    CLEANUP(closep) int below = mount_clone(tmpfs, "proc", true);
    int r;

    l->root_fd = openat(tmpfs, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l->root_fd < 0 || fchdir(l->root_fd) < 0)
        return err_sys(&l->err, -errno, "sandbox root: enter");
    r = below < 0 ? below : apply_attach(l, below, &(struct step){.to = "/proc"});
    return r < 0 ? err_sys(&l->err, r, "sandbox root: proc") : 0;
}

static int mount_early(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r = 0;

        if (root_before_sealing(s) && !is_small_step(s->kind))
            r = apply_step(l, s);
        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: %s '%s'", step_kind_names[s->kind], s->to);
    }
    return 0;
}

static int make_tmpfs(struct launch *l) {
    static const char *const dirs[] = {"top", "l", "root", "proc"};
    int r = l->root_fd = l->made_fd = root_new_tmpfs(l);

    if (r < 0 || (r = root_attach(l)) < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        if (mkdirat(l->root_fd, dirs[i], 0755) < 0)
            return err_sys(&l->err, -errno, "sandbox root");
    l->made_fd = openat(l->root_fd, "top", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->made_fd < 0 ? err_sys(&l->err, -errno, "sandbox root") : 0;
}

/* The overlay was not the topmost mount on "/" but one in it. So the old root comes to lie on it with the tmpfs on top: that was detached, and
 * the host's tree is still there, one "/.." away. */
int apply_image_enter(struct launch *l) {
    struct stat here, above;

    if (umount2(".", MNT_DETACH) < 0)
        return err_sys(&l->err, -errno, "sandbox root: detach the host's tree");
    if (stat("/", &here) < 0 || stat("/..", &above) < 0)
        return err_sys(&l->err, -errno, "sandbox root: look at it");
    if (here.st_dev != above.st_dev || here.st_ino != above.st_ino)
        return err_set(&l->err, -EXDEV, "sandbox root: the host's tree is still there");
    return 0;
}

int apply_image_root(struct launch *l) {
    const uint64_t sealed = ATTR_NOSUID_NODEV | MOUNT_ATTR_RDONLY;
    int r = make_tmpfs(l), tmpfs = l->root_fd;

    if (r == 0 && root_needs_covers(l->plan) &&
        ((r = root_make_covers(l)) < 0 || (r = root_open_covers(l)) < 0 || (r = apply_tracked(l)) < 0))
        return r;
    r = r < 0 ? r : root_make_late_points(l);
    r = r < 0 ? r : fill_top(l);
    if (r == 0 && l->plan->writable_system && ((r = system_show(l)) < 0 || (r = system_make_points(l)) < 0))
        return r;
    r = r < 0 ? r : mount_layers(l);
    r = r < 0 || !l->plan->writable_system ? r : system_mount(l);
    r = r < 0 ? r : enter_overlay(l, tmpfs);
    r = r < 0 ? r : mount_early(l);
    if (r < 0)
        return r;
    r = mount_restrict(l->root_fd, sealed, true);
    r = r < 0 ? r : mount_restrict(tmpfs, sealed, false); /* what covers are copied from */
    if (r < 0)
        return err_sys(&l->err, r, "sandbox root: make read-only%s", root_too_old(r));
    return l->plan->writable_system ? system_unseal(l) : 0;
}
