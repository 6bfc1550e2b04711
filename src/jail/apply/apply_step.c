/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a plan do to the root of the sandbox; in which order, and when, is apply_root.c's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "jail/apply/apply_priv.h"
#include "jail/apply/blank.h"
#include "jail/apply/ground.h"
#include "jail/plan/plan.h"
#include "os/copy.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/safepath.h"

enum { COPIED_FILE_MAX = 1024 * 1024 };

int root_make_parent(int root, const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!slash)
        return 0;
    if ((size_t)(slash - path) >= sizeof parent)
        return -ENAMETOOLONG;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    return dir_make(root, parent, 0755, 0755);
}

int root_make_file(int root, const char *path, const char *content, mode_t mode) {
    CLEANUP(closep) int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

    if (fd < 0)
        return errno == EEXIST ? 0 : -errno;
    return content ? fd_write_all(fd, content, strlen(content)) : 0;
}

int root_make_point(int root, const char *to, const struct stat *st) {
    int r;

    if (S_ISDIR(st->st_mode))
        return dir_make(root, to, 0755, 0755);
    r = root_make_file(root, to, NULL, 0444);
    if (r != -ENOENT)
        return r;
    r = root_make_parent(root, to);
    return r < 0 ? r : root_make_file(root, to, NULL, 0444);
}

/* A symlink of the host stays one: it leads where the sandbox's own root has it. */
static int copy_link(struct launch *l, const struct step *s) {
    char target[PATH_MAX];
    ssize_t n = readlink(s->from, target, sizeof target - 1);

    if (n < 0)
        return -errno;
    target[n] = 0;
    return symlinkat(target, l->root_fd, apply_rel(s)) < 0 ? -errno : 0;
}

/* Its place is in the topmost layer (apply_image.c). */
static int attach_copy(struct launch *l, const struct step *s) {
    CLEANUP(closep) int tree = mount_clone(AT_FDCWD, s->from, true);

    return tree < 0 ? tree : apply_attach(l, tree, s);
}

/* On the ground, of the kind that the host's had a moment ago. */
static bool has_point(const struct launch *l, const struct step *s) {
    return l->ground && l->ground->kinds[s - l->plan->steps];
}

/* The current directory is the new root. */
static int bind_host(struct launch *l, const struct step *s) {
    struct stat st;
    int r;

    if (has_point(l, s)) {
        r = mount_bind(s->from, apply_rel(s));
        return r == -ENOENT && s->optional ? 0 : r;
    }
    if (lstat(s->from, &st) < 0)
        return (errno == ENOENT || errno == ENOTDIR) && s->optional ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return copy_link(l, s);
    if (l->plan->writable_system)
        return attach_copy(l, s);
    r = root_make_point(l->root_fd, apply_rel(s), &st);
    return r < 0 ? r : mount_bind(s->from, apply_rel(s));
}

static int do_dir(struct launch *l, const struct step *s) {
    return dir_make(l->made_fd, apply_rel(s), s->mode ? s->mode : 0755, 0755);
}

static int do_symlink(struct launch *l, const struct step *s) {
    return symlinkat(s->from, l->made_fd, apply_rel(s)) < 0 ? -errno : 0;
}

static int do_file(struct launch *l, const struct step *s) {
    return root_make_file(l->made_fd, apply_rel(s), s->from, s->mode);
}

static int do_copy(struct launch *l, const struct step *s) {
    CLEANUP(closep) int from = openat(l->root_fd, s->from + 1, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(closep) int to = -1;

    if (from < 0)
        return -errno;
    to = openat(l->made_fd, apply_rel(s), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, s->mode);
    return to < 0 ? -errno : copy_content(from, to, COPIED_FILE_MAX, NULL);
}

static int do_ro(struct launch *l, const struct step *s) {
    int *tree = &l->trees[s - l->plan->steps]; /* cloned by root, where the sandbox's id cannot look */
    struct stat st;
    int r = 0;

    if (*tree < 0 && l->blank && l->blank->tree >= 0) { /* the pool's tree is sealed, so this one seals itself */
        r = *tree = mount_clone(AT_FDCWD, s->from, true);
        r = r < 0 ? r : mount_restrict(*tree, ATTR_NOSUID_NODEV | MOUNT_ATTR_RDONLY, true);
    }
    if (r < 0)
        return r == -ENOENT && s->optional ? 0 : r;
    if (*tree < 0)
        return bind_host(l, s);
    if (fstat(*tree, &st) < 0)
        return -errno;
    r = l->plan->writable_system || has_point(l, s) ? 0 : root_make_point(l->root_fd, apply_rel(s), &st);
    return r < 0 ? r : apply_attach(l, *tree, s);
}

/* Devices keep working only without nodev, so they come after the sweep that sets it. */
static int do_device(struct launch *l, const struct step *s) {
    return l->plan->writable_system ? attach_copy(l, s) : mount_bind(s->from, apply_rel(s));
}

static int do_pts(struct launch *l, const struct step *s) {
    static const struct fs_param params[] = {{"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}};
    CLEANUP(closep) int fd = mount_new("devpts", params, ARRAY_LEN(params), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

    return fd < 0 ? fd : apply_attach(l, fd, s);
}

static int do_proc(struct launch *l, const struct step *s) {
    CLEANUP(closep) int fd = mount_new("proc", NULL, 0, ATTR_NOSUID_NODEV | MOUNT_ATTR_NOEXEC);

    return fd < 0 ? fd : apply_attach(l, fd, s);
}

static int do_proc_ro(struct launch *l, const struct step *s) {
    CLEANUP(closep) int fd = mount_clone(l->root_fd, apply_rel(s), false);
    int r;

    if (fd == -ENOENT && s->optional)
        return 0;
    if (fd < 0)
        return fd;
    r = mount_restrict(fd, ATTR_NOSUID_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, false);
    return r < 0 ? r : mount_attach(fd, l->root_fd, apply_rel(s));
}

/* What is on the way to the empty folder may be the inside's. */
static int mask_folder(struct launch *l, const struct step *s) {
    CLEANUP(closep) int from = safepath_open(l->root_fd, &PLAN_EMPTY_DIR[1], O_PATH | O_DIRECTORY);
    CLEANUP(closep) int tree = from < 0 ? from : mount_clone(from, "", false);
    int r = tree < 0 ? tree : mount_restrict(tree, ATTR_NOSUID_NODEV | MOUNT_ATTR_RDONLY, false);

    return r < 0 ? r : mount_attach(tree, l->root_fd, apply_rel(s));
}

/* Files are covered by /dev/null, directories by an empty one of the (read-only) root. */
static int do_mask(struct launch *l, const struct step *s) {
    struct stat st;

    if (fstatat(l->root_fd, apply_rel(s), &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && s->optional ? 0 : -errno;
    if (l->plan->writable_system && S_ISDIR(st.st_mode))
        return mask_folder(l, s);
    return mount_bind(!S_ISDIR(st.st_mode) ? "dev/null" : l->plan->image ? &PLAN_EMPTY_DIR[1] : "var/cache", apply_rel(s));
}

/* Private areas in memory were cloned, writable, before the root became read-only; those on disk are in their places, and were sealed
 * with the rest. */
static int do_private(struct launch *l, const struct step *s) {
    int tree = l->trees[s - l->plan->steps];

    if (s->on_disk && !apply_is_layered(l))
        return mount_loosen(tree, MOUNT_ATTR_RDONLY);
    return apply_attach(l, tree, s);
}

/* Was made before the root became read-only. */
static int do_overlay(struct launch *l, const struct step *s) {
    return apply_attach(l, l->trees[s - l->plan->steps], s);
}

/* The user's files: cloned in this namespace, or by root before (idmapped). */
static int do_user_tree(struct launch *l, const struct step *s) {
    int *tree = &l->trees[s - l->plan->steps];
    uint64_t attrs = ATTR_NOSUID_NODEV | (s->writable ? 0 : MOUNT_ATTR_RDONLY);
    int r;

    if (*tree < 0)
        *tree = mount_clone(AT_FDCWD, s->from, true);
    if (*tree < 0)
        return s->optional ? 0 : *tree;
    r = mount_restrict(*tree, attrs, true);
    return r < 0 ? r : apply_attach(l, *tree, s);
}

static int open_workspace(struct launch *l) {
    if (l->workspace_fd >= 0)
        return 0;
    if (l->plan->home_persistent && str_below(l->plan->workspace, l->plan->home))
        return l->workspace_fd = apply_home_open(l, l->plan->workspace);
    l->workspace_fd = openat(l->root_fd, l->plan->workspace + 1, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return l->workspace_fd < 0 ? -errno : 0;
}

/* Found again below the workspace's own mount without following links: what was renamed or replaced since the scan is not
 * covered in the wrong place. What is gone needs no cover. */
static int hide(struct launch *l, int top, const char *path, int tracked) {
    CLEANUP(closep) int at = safepath_open(top, path, O_PATH);
    CLEANUP(closep) int cover = -1;
    struct stat st, like;

    if (at < 0)
        return at == -ENOENT ? 0 : at;
    if (fstat(at, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode)) /* leads to what is hidden, or not, under its own name; a link cannot be covered */
        return 0;
    if (tracked >= 0 && fstat(tracked, &like) == 0 &&
        S_ISDIR(like.st_mode) == S_ISDIR(st.st_mode)) /* else the index is out of date */
        return mount_attach(tracked, at, "");
    cover = mount_clone(S_ISDIR(st.st_mode) ? l->cover.dir : l->cover.file, "", false);
    return cover < 0 ? cover : mount_attach(cover, at, "");
}

static int do_hide(struct launch *l, const struct step *s) {
    int r = open_workspace(l);

    return r < 0 ? r : hide(l, l->workspace_fd, s->from, l->trees[s - l->plan->steps]);
}

/* No link is followed on the way to the place either: what is in a persistent home was made inside. */
static int do_hide_again(struct launch *l, const struct step *s) {
    CLEANUP(closep) int top = safepath_open(l->root_fd, s->from + 1, O_PATH | O_DIRECTORY);

    if (top < 0)
        return top == -ENOENT ? 0 : top;
    return hide(l, top, s->to + strlen(s->from) + 1, -1);
}

/* Another file of the workspace, read-only, over this one. Where there is none there is no place for it either: direct mode
 * creates nothing on the host. */
static int do_substitute(struct launch *l, const struct step *s) {
    CLEANUP(closep) int at = -1;
    CLEANUP(closep) int shown = -1;
    CLEANUP(closep) int tree = -1;
    int r;

    if (l->plan->mode == WORKSPACE_OVERLAY)
        return 0; /* is in the mask */
    r = open_workspace(l);
    if (r < 0)
        return r;
    at = safepath_open(l->workspace_fd, s->to + strlen(l->plan->workspace) + 1, O_PATH);
    if (at < 0)
        return at == -ENOENT ? 0 : at;
    shown = safepath_open(l->workspace_fd, s->from, O_PATH);
    if (shown < 0)
        return shown;
    tree = mount_clone(shown, "", false);
    r = tree < 0 ? tree : mount_restrict(tree, ATTR_NOSUID_NODEV | MOUNT_ATTR_RDONLY, false);
    return r < 0 ? r : mount_attach(tree, at, "");
}

/* Is in the mask of the overlay; or a layer of the root itself (apply_image.c). */
static int do_nothing(struct launch *l UNUSED, const struct step *s UNUSED) {
    return 0;
}

static int (*const step_fn[STEP_KIND_COUNT])(struct launch *, const struct step *) = {
    [STEP_DIR] = do_dir,
    [STEP_SYMLINK] = do_symlink,
    [STEP_FILE] = do_file,
    [STEP_COPY] = do_copy,
    [STEP_RO] = do_ro,
    [STEP_PRIVATE] = do_private,
    [STEP_DEVICE] = do_device,
    [STEP_PTS] = do_pts,
    [STEP_PROC] = do_proc,
    [STEP_PROC_RO] = do_proc_ro,
    [STEP_MASK] = do_mask,
    [STEP_WORKSPACE] = do_user_tree,
    [STEP_HIDE] = do_hide,
    [STEP_EXTRA] = do_user_tree,
    [STEP_HIDE_AGAIN] = do_hide_again,
    [STEP_OVERLAY] = do_overlay,
    [STEP_WHITEOUT] = do_nothing,
    [STEP_SUBSTITUTE] = do_substitute,
    [STEP_LAYER] = do_nothing,
    [STEP_UPPER] = do_nothing, /* apply_system.c */
    [STEP_COW] = do_nothing,
};

int apply_step(struct launch *l, const struct step *s) {
    return step_fn[s->kind](l, s);
}
