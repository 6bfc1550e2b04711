/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writable system (jail/plan/plan_system.h): the upper layer of the root, and folders that are overlays of their own. Both are made while the tmpfs of
 * apply_image.c is the current directory; in it
 *
 *   s       the system's folder: a link to it or, by root, a mount that maps its owner
 *   c/N     what is below the layer of a STEP_COW, the same way
 *   k/N     folders of the host once more (apply_folders.c), in a tmpfs of their own
 *
 * The layers were the inside's in an earlier life of a persistent sandbox, and host paths still resolve. So what is mounted after them is attached
 * to a place that is found without following a link; a link in the way is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/apply/apply_priv.h"
#include "jail/plan/plan_system.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/safepath.h"

enum { COW_NAME = 32, COW_OPTION = 128 };

int apply_attach(struct launch *l, int tree, const struct step *s) {
    CLEANUP(closep) int at = -1;

    if (!l->plan->writable_system)
        return mount_attach(tree, l->root_fd, apply_rel(s));
    at = safepath_open(l->root_fd, apply_rel(s), O_PATH);
    return at < 0 ? at : mount_attach(tree, at, "");
}

/* A layer's folder under this name in the tmpfs. */
static int show_layer(struct launch *l, size_t i, const char *name) {
    if (l->trees[i] < 0)
        return symlinkat(l->plan->steps[i].from, l->root_fd, name) < 0 ? -errno : 0;
    if (mkdirat(l->root_fd, name, 0755) < 0)
        return -errno;
    return mount_attach(l->trees[i], l->root_fd, name);
}

int system_show(struct launch *l) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < l->plan->n_steps; i++)
        if (l->plan->steps[i].kind == STEP_UPPER)
            r = show_layer(l, i, "s");
    return r < 0 ? err_sys(&l->err, r, "the system's folder") : 0;
}

int system_make_points(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r = s->kind == STEP_COW ? dir_make(l->made_fd, apply_rel(s), 0755, 0755) : 0;

        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: place for '%s'", s->to);
    }
    return 0;
}

/* By root the host's owner is mapped; and what is ours belongs to us. */
static bool needs_folders(const struct launch *l, const struct step *s) {
    return !l->plan->ids.by_root && plan_system_has(s->to);
}

static int make_folders(struct launch *l, size_t i, char lower[static COW_OPTION]) {
    char name[COW_NAME];
    size_t len = strlen(lower);

    snprintf(name, sizeof name, "k/%zu", i);
    memmove(lower + strlen(name) + 1, lower, len + 1);
    memcpy(lower, name, strlen(name));
    lower[strlen(name)] = ':';
    return system_folders(l->plan->steps[i].from, l->root_fd, name);
}

static int mount_cow(struct launch *l, size_t i, int root) {
    const struct step *s = &l->plan->steps[i];
    char name[PLAN_SYSTEM_NAME], lower[COW_OPTION], upper[COW_OPTION], work[COW_OPTION];
    const struct fs_param params[] = {
        {"userxattr", NULL}, {"volatile", NULL}, {"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}};
    CLEANUP(closep) int at = -1, tree = -1; /* trees[] is the starter's */
    int r;

    plan_system_name(s->to, name);
    snprintf(lower, sizeof lower, "c/%zu", i);
    snprintf(upper, sizeof upper, "s/%s/upper", name);
    snprintf(work, sizeof work, "s/%s/work", name);
    at = safepath_open(root, apply_rel(s), O_PATH | O_DIRECTORY);
    if (at < 0)
        return at;
    r = show_layer(l, i, lower);
    r = r < 0 || !needs_folders(l, s) ? r : make_folders(l, i, lower);
    r = r < 0 ? r : (tree = mount_new("overlay", params, ARRAY_LEN(params), ATTR_NOSUID_NODEV));
    return r < 0 ? r : mount_attach(tree, at, "");
}

static bool is_cow(const struct launch *l, size_t i) {
    const struct step *s = &l->plan->steps[i];

    return s->kind == STEP_COW && (!s->optional || l->trees[i] >= 0 || access(s->from, F_OK) == 0);
}

/* Does not count as a private area. */
static int mount_folders(struct launch *l) {
    static const struct fs_param params[] = {{"mode", "0755"}};
    CLEANUP(closep) int fd = mount_new("tmpfs", params, ARRAY_LEN(params), ATTR_NOSUID_NODEV);

    return fd < 0 ? fd : mount_attach(fd, l->root_fd, "k");
}

int system_mount(struct launch *l) {
    CLEANUP(closep) int root = openat(l->root_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int made = 0;

    if (root < 0 || mkdirat(l->root_fd, "c", 0755) < 0 || mkdirat(l->root_fd, "k", 0755) < 0)
        return err_sys(&l->err, -errno, "sandbox root");
    if (!l->plan->ids.by_root && (made = mount_folders(l)) < 0)
        return err_sys(&l->err, made, "sandbox root: memory for folders");
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r = is_cow(l, i) ? mount_cow(l, i, root) : 0;

        if (r < 0)
            return err_sys(&l->err, r, "copy-on-write view of '%s' (needs overlayfs in user namespaces, Linux 5.11)", s->from);
    }
    return 0;
}

static int unseal_cow(struct launch *l, const struct step *s) {
    CLEANUP(closep) int at = safepath_open(l->root_fd, apply_rel(s), O_PATH | O_DIRECTORY);

    return at < 0 ? at : mount_loosen(at, MOUNT_ATTR_RDONLY);
}

int system_unseal(struct launch *l) {
    int r = mount_loosen(l->root_fd, MOUNT_ATTR_RDONLY);

    for (size_t i = 0; r == 0 && i < l->plan->n_steps; i++)
        if (is_cow(l, i))
            r = unseal_cow(l, &l->plan->steps[i]);
    return r < 0 ? err_sys(&l->err, r, "sandbox root: make it writable") : 0;
}
