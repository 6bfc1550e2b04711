/*
 * The root of the sandbox. A tmpfs is stacked on top of "/" in the child's own mount namespace and made the
 * current directory, so host paths still resolve as before while it is being filled. Order matters:
 *
 *   1. mount points of everything that comes in step 4, and the private areas themselves, while there is nothing but the tmpfs:
 *      no folder is ever made, and no mode changed, in a tree of the host
 *   2. directories, files, symlinks, read-only host parts
 *   3. the whole tree read-only, nosuid, nodev, private propagation, in one call
 *   4. what must be writable or special: private areas (subdirectories of the same tmpfs, so that one quota
 *      holds for all of them), devices, /proc, the workspace, extra mounts
 *   5. pivot into it, the host's tree is detached
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/apply.h"
#include "jail/blank.h"
#include "jail/plan.h"
#include "jail/template.h"
#include "os/copy.h"
#include "os/fd.h"
#include "os/mountapi.h"
#include "os/safepath.h"

enum { LAZY_UMOUNT = 2 /* MNT_DETACH */, PRIVATE_INODES_MAX = 1000000, BYTES_PER_INODE = 4096, COPIED_FILE_MAX = 1024 * 1024 };
#define ATTR_NOSUID_NODEV (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Where it goes, relative to the new root. */
static const char *rel(const struct step *s) {
    return s->to + 1;
}

/* mkdir -p below the new root. */
static int make_dirs(int root, const char *path, mode_t mode) {
    char part[PATH_MAX];
    size_t len = strlen(path);

    if (len >= sizeof part)
        return -ENAMETOOLONG;
    if (mkdirat(root, path, mode) == 0 || errno == EEXIST)
        return 0;
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        if (mkdirat(root, part, i == len ? mode : 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int make_parent(int root, const char *path) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!slash)
        return 0;
    if ((size_t)(slash - path) >= sizeof parent)
        return -ENAMETOOLONG;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    return make_dirs(root, parent, 0755);
}

static int make_file(int root, const char *path, const char *content, mode_t mode) {
    CLEANUP(closep) int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

    if (fd < 0)
        return errno == EEXIST ? 0 : -errno;
    return content ? fd_write_all(fd, content, strlen(content)) : 0;
}

/* A mount point of the kind of what will be mounted. */
static int make_point(int root, const char *to, const struct stat *st) {
    int r;

    if (S_ISDIR(st->st_mode))
        return make_dirs(root, to, 0755);
    r = make_file(root, to, NULL, 0444);
    if (r != -ENOENT)
        return r;
    r = make_parent(root, to);
    return r < 0 ? r : make_file(root, to, NULL, 0444);
}

/* A symlink of the host stays one: it leads where the sandbox's own root has it. */
static int copy_link(struct launch *l, const struct step *s) {
    char target[PATH_MAX];
    ssize_t n = readlink(s->from, target, sizeof target - 1);

    if (n < 0)
        return -errno;
    target[n] = 0;
    return symlinkat(target, l->root_fd, rel(s)) < 0 ? -errno : 0;
}

/* The current directory is the new root. */
static int bind_host(struct launch *l, const struct step *s) {
    struct stat st;
    int r;

    if (lstat(s->from, &st) < 0)
        return (errno == ENOENT || errno == ENOTDIR) && s->optional ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return copy_link(l, s);
    r = make_point(l->root_fd, rel(s), &st);
    return r < 0 ? r : mount_bind(s->from, rel(s));
}

static int do_dir(struct launch *l, const struct step *s) {
    return make_dirs(l->made_fd, rel(s), s->mode ? s->mode : 0755);
}

static int do_symlink(struct launch *l, const struct step *s) {
    return symlinkat(s->from, l->made_fd, rel(s)) < 0 ? -errno : 0;
}

static int do_file(struct launch *l, const struct step *s) {
    return make_file(l->made_fd, rel(s), s->from, s->mode);
}

static int do_copy(struct launch *l, const struct step *s) {
    CLEANUP(closep) int from = openat(l->root_fd, s->from + 1, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(closep) int to = -1;

    if (from < 0)
        return -errno;
    to = openat(l->root_fd, rel(s), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, s->mode);
    return to < 0 ? -errno : copy_content(from, to, COPIED_FILE_MAX, NULL);
}

static int do_ro(struct launch *l, const struct step *s) {
    int tree = l->trees[s - l->plan->steps]; /* cloned by root, where the sandbox's id cannot look */
    struct stat st;
    int r;

    if (tree < 0)
        return bind_host(l, s);
    if (fstat(tree, &st) < 0)
        return -errno;
    r = make_point(l->root_fd, rel(s), &st);
    return r < 0 ? r : mount_attach(tree, l->root_fd, rel(s));
}

/* Devices keep working only without nodev, so they come after the sweep that sets it. */
static int do_device(struct launch *l, const struct step *s) {
    return mount_bind(s->from, rel(s));
}

static int do_pts(struct launch *l, const struct step *s) {
    static const struct fs_param params[] = {{"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}};
    CLEANUP(closep) int fd = mount_new("devpts", params, ARRAY_LEN(params), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);

    return fd < 0 ? fd : mount_attach(fd, l->root_fd, rel(s));
}

static int do_proc(struct launch *l, const struct step *s) {
    CLEANUP(closep) int fd = mount_new("proc", NULL, 0, ATTR_NOSUID_NODEV | MOUNT_ATTR_NOEXEC);

    return fd < 0 ? fd : mount_attach(fd, l->root_fd, rel(s));
}

static int do_proc_ro(struct launch *l, const struct step *s) {
    CLEANUP(closep) int fd = mount_clone(l->root_fd, rel(s), false);
    int r;

    if (fd == -ENOENT && s->optional)
        return 0;
    if (fd < 0)
        return fd;
    r = mount_restrict(fd, ATTR_NOSUID_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, false);
    return r < 0 ? r : mount_attach(fd, l->root_fd, rel(s));
}

/* Files are covered by /dev/null, directories by an empty one of the (read-only) root. */
static int do_mask(struct launch *l, const struct step *s) {
    struct stat st;

    if (fstatat(l->root_fd, rel(s), &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT && s->optional ? 0 : -errno;
    return mount_bind(S_ISDIR(st.st_mode) ? "var/cache" : "dev/null", rel(s));
}

/* Private areas were cloned, writable, before the root became read-only: trees[i] holds them. */
static int do_private(struct launch *l, const struct step *s) {
    return mount_attach(l->trees[s - l->plan->steps], l->root_fd, rel(s));
}

/* The user's files: cloned in this namespace, or by root before (idmapped). */
static int do_user_tree(struct launch *l, const struct step *s) {
    int *tree = &l->trees[s - l->plan->steps];
    uint64_t attrs = ATTR_NOSUID_NODEV | (s->writable ? 0 : MOUNT_ATTR_RDONLY);
    int r;

    if (*tree < 0)
        *tree = mount_clone(AT_FDCWD, s->from, true);
    if (*tree < 0)
        return *tree;
    r = mount_restrict(*tree, attrs, true);
    return r < 0 ? r : mount_attach(*tree, l->root_fd, rel(s));
}

static bool is_in_home(const struct plan *p) {
    size_t n = strlen(p->home);

    return p->home_kept && strncmp(p->workspace, p->home, n) == 0 && p->workspace[n] == '/';
}

static int open_workspace(struct launch *l) {
    if (l->workspace_fd >= 0)
        return 0;
    if (is_in_home(l->plan))
        return l->workspace_fd = apply_home_open(l, l->plan->workspace);
    l->workspace_fd = openat(l->root_fd, l->plan->workspace + 1, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return l->workspace_fd < 0 ? -errno : 0;
}

/* Found again below the workspace's own mount without following links: what was renamed or replaced since the scan is not
 * covered in the wrong place. What is gone needs no cover. */
static int do_hide(struct launch *l, const struct step *s) {
    CLEANUP(closep) int at = -1;
    CLEANUP(closep) int cover = -1;
    struct stat st;
    int r = open_workspace(l);

    if (r < 0)
        return r;
    at = safepath_open(l->workspace_fd, s->from, O_PATH);
    if (at < 0)
        return at == -ENOENT ? 0 : at;
    if (fstat(at, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode)) /* leads to what is hidden, or not, under its own name; a link cannot be covered */
        return 0;
    cover = mount_clone(S_ISDIR(st.st_mode) ? l->empty_dir : l->empty_file, "", false);
    return cover < 0 ? cover : mount_attach(cover, at, "");
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

static int do_overlay(struct launch *l, const struct step *s) {
    return mount_attach(l->trees[s - l->plan->steps], l->root_fd, rel(s));
}

/* Is in the mask of the overlay. */
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
    [STEP_OVERLAY] = do_overlay,
    [STEP_WHITEOUT] = do_nothing,
    [STEP_SUBSTITUTE] = do_substitute,
};

static bool before_sealing(const struct step *s) {
    enum step_kind kind = s->kind;

    return !s->at_home && (kind == STEP_DIR || kind == STEP_SYMLINK || kind == STEP_FILE || kind == STEP_COPY || kind == STEP_RO);
}

static bool has_tree(const struct launch *l) {
    return l->blank && l->blank->tree >= 0;
}

/* Came with the pool's tree (template.h). */
static bool is_there(const struct launch *l, const struct step *s) {
    return has_tree(l) && template_holds(l->plan, s);
}

static int run_steps(struct launch *l, bool before) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r;

        if (before_sealing(s) != before || is_there(l, s))
            continue;
        r = s->at_home ? apply_home(l, s) : step_fn[s->kind](l, s);
        /* A container that covers parts of its /proc: the kernel then refuses an uncovered one. */
        l->no_userns = s->kind == STEP_PROC && r == -EPERM;
        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: %s '%s'%s%s", step_kind_names[s->kind], s->to,
                           s->kind == STEP_EXTRA ? " from " : "", s->kind == STEP_EXTRA ? s->from : "");
    }
    return 0;
}

/* Mount points of everything that comes after sealing; private areas are cloned while still writable. */
static int make_late_points(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        struct stat st;
        int r = 0;

        if (has_tree(l) && s->kind != STEP_PRIVATE && !template_leaves(l->plan, s->to))
            continue;
        if (s->kind == STEP_PRIVATE) {
            r = make_dirs(l->made_fd, rel(s), s->mode);
            if (r == 0 && fchmodat(l->made_fd, rel(s), s->mode, 0) < 0)
                r = -errno;
            if (r == 0)
                r = l->trees[i] = mount_clone(l->made_fd, rel(s), false);
        } else if (s->kind == STEP_WORKSPACE) {
            r = s->at_home ? 0 : make_dirs(l->made_fd, rel(s), 0755);
        } else if (s->kind == STEP_OVERLAY) {
            r = s->at_home ? 0 : make_dirs(l->made_fd, rel(s), 0755);
            if (r == 0 && (r = apply_overlay(l, s, &l->trees[i])) < 0)
                return r;
        } else if (s->kind == STEP_DEVICE) {
            r = make_file(l->made_fd, rel(s), NULL, 0444);
            if (r == -ENOENT &&
                (r = make_parent(l->made_fd, rel(s))) == 0) /* a template has no private area that is there before */
                r = make_file(l->made_fd, rel(s), NULL, 0444);
        } else if (s->kind == STEP_EXTRA && !s->at_home) {
            /* what root cloned before may lie where the sandbox's id cannot look */
            r = (l->trees[i] >= 0 ? fstat(l->trees[i], &st) : stat(s->from, &st)) < 0 ? -errno
                                                                                      : make_point(l->made_fd, rel(s), &st);
        }
        if (r < 0)
            return err_sys(&l->err, r, "sandbox root: place for %s '%s'", step_kind_names[s->kind], s->to);
    }
    return 0;
}

static const char *too_old(int r) {
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
        if (r < 0)
            return err_sys(&l->err, r, "workspace '%s'%s", l->plan->workspace, too_old(r));
    }
    return 0;
}

/* Made where /proc will cover them, so that they cannot be reached by name. Mode 0, on a read-only mount, without any capability:
 * nobody inside opens them. */
static int make_covers(struct launch *l) {
    int r = make_dirs(l->root_fd, "proc/dir", 0);

    r = r < 0 ? r : make_file(l->root_fd, "proc/file", NULL, 0);
    return r < 0 ? err_sys(&l->err, r, "covers for hidden files") : 0;
}

static int open_covers(struct launch *l) {
    l->empty_dir = openat(l->root_fd, "proc/dir", O_PATH | O_CLOEXEC);
    l->empty_file = openat(l->root_fd, "proc/file", O_PATH | O_CLOEXEC);
    return l->empty_dir < 0 || l->empty_file < 0 ? err_sys(&l->err, -errno, "covers for hidden files") : 0;
}

static bool needs_covers(const struct plan *p) {
    for (size_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == STEP_HIDE)
            return true;
    return false;
}

static int new_tmpfs(struct launch *l) {
    char size[32], inodes[32];
    uint64_t n = l->plan->private_size / BYTES_PER_INODE;
    const struct fs_param params[] = {{"size", size}, {"nr_inodes", inodes}, {"mode", "0755"}};
    int fd;

    snprintf(size, sizeof size, "%" PRIu64, l->plan->private_size);
    snprintf(inodes, sizeof inodes, "%" PRIu64, n < 4096 ? 4096 : n > PRIVATE_INODES_MAX ? PRIVATE_INODES_MAX : n);
    fd = mount_new("tmpfs", params, ARRAY_LEN(params), ATTR_NOSUID_NODEV);
    /* Ubuntu's AppArmor restriction lets the user namespace be made and then refuses everything in it. */
    l->no_userns = fd == -EPERM || fd == -EACCES;
    return fd < 0 ? err_sys(&l->err, fd, "sandbox root: mount tmpfs") : fd;
}

static int attach_root(struct launch *l) {
    int r = mount_attach(l->root_fd, AT_FDCWD, "/");

    l->no_userns = r == -EPERM || r == -EACCES; /* Landlock or AppArmor around us: no mounts */
    if (r == 0 && fchdir(l->root_fd) < 0)
        r = -errno;
    return r < 0 ? err_sys(&l->err, r, "sandbox root: attach") : 0;
}

static int build_root(struct launch *l, bool covers) {
    int r = l->root_fd = l->made_fd = new_tmpfs(l);

    if (r < 0 || (r = attach_root(l)) < 0 || (covers && ((r = make_covers(l)) < 0 || (r = open_covers(l)) < 0)) ||
        (r = make_late_points(l)) < 0 || (r = run_steps(l, true)) < 0)
        return r;
    r = mount_restrict(l->root_fd, ATTR_NOSUID_NODEV | MOUNT_ATTR_RDONLY, true);
    return r < 0 ? err_sys(&l->err, r, "sandbox root: make read-only%s", too_old(r)) : 0;
}

/* The pool's tree is sealed already. Private areas, and what is made in them, are of a tmpfs that only this sandbox has; it is
 * attached for a moment where /proc will be, because before Linux 6.15 parts of a detached mount cannot be copied. */
static int take_tree(struct launch *l) {
    int r = l->made_fd = new_tmpfs(l);

    l->root_fd = l->blank->tree;
    if (r < 0 || (r = attach_root(l)) < 0 || (needs_covers(l->plan) && (r = open_covers(l)) < 0))
        return r;
    r = mount_attach(l->made_fd, l->root_fd, "proc");
    if (r < 0)
        return err_sys(&l->err, r, "sandbox root: private areas");
    r = make_late_points(l);
    r = r < 0 ? r : run_steps(l, true);
    if (r == 0 && syscall(SYS_umount2, "proc", LAZY_UMOUNT) < 0)
        return err_sys(&l->err, -errno, "sandbox root: private areas");
    return r;
}

int apply_root(struct launch *l) {
    int r;

    umask(0);
    r = clone_workspace(l);
    if (r < 0)
        return r;
    l->workspace_fd = l->home_fd = -1;
    r = has_tree(l) ? take_tree(l) : build_root(l, needs_covers(l->plan));
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
    return chdir("/") < 0 ? err_sys(&l->err, -errno, "sandbox root: chdir") : 0;
}
