/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of a bundle that has an image of the store. gVisor reads one folder and knows no layers, so they become one tree of hard links: no content is
 * copied, and runsc can make the names that it mounts to, which a layer of the store must not get. The tree is on the disk of the store and goes with the run.
 *
 * Should: leave every layer as it is, and make names in the new tree only: links of the image are links of this machine here. Nothing in a link is written to: the root is read-only, for runsc and for its gofer.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "engine/container/container_box.h"
#include "engine/container/runsc.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"
#include "workspace/copy/walk.h"

struct root_merge {
    int to[WALK_DEPTH_MAX + 2]; /* folders of the new tree, down to where the walk is; [0] is borrowed */
};

static bool is_whiteout(const struct stat *st) {
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_opaque(int dir, const char *name) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char value;

    return fd >= 0 && fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

/* Whatever a layer below has there. */
static int clear_name(int dir, const char *name) {
    int r = unlinkat(dir, name, 0) < 0 ? -errno : 0;

    r = r == -EISDIR || r == -EPERM ? remove_tree(dir, name) : r;
    return r == -ENOENT ? 0 : r;
}

static int merge_folder(struct root_merge *m, const struct walk_entry *e) {
    int dir = m->to[e->depth], fd, r = 0;
    struct stat st;

    if (is_opaque(e->dir, e->name) || (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)))
        r = clear_name(dir, e->name);
    if (r == 0 && mkdirat(dir, e->name, 0700) < 0 && errno != EEXIST)
        r = -errno;
    fd = r < 0 ? -1 : openat(dir, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 &&
        (fd < 0 || (geteuid() == 0 && fchown(fd, e->st.st_uid, e->st.st_gid) < 0) || fchmod(fd, e->st.st_mode & 0777) < 0))
        r = -errno;
    closep(&m->to[e->depth + 1]);
    m->to[e->depth + 1] = fd;
    return r;
}

static int merge_entry(const struct walk_entry *e, void *arg, struct err *err) {
    struct root_merge *m = arg;
    int dir = m->to[e->depth], r;

    if (S_ISDIR(e->st.st_mode)) {
        r = merge_folder(m, e);
    } else {
        r = clear_name(dir, e->name);
        if (r == 0 && !is_whiteout(&e->st) && linkat(e->dir, e->name, dir, e->name, 0) < 0)
            r = -errno;
    }
    return r < 0 ? err_sys(err, r, "root of the image: '%s'", e->path) : WALK_ON;
}

static int merge_layer(const char *path, int root, struct err *err) {
    struct root_merge m;
    const struct walk_ops ops = {.found = merge_entry, .arg = &m};
    CLEANUP(closep) int layer = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r;

    for (size_t i = 0; i < ARRAY_LEN(m.to); i++)
        m.to[i] = i ? -1 : root;
    r = layer < 0 ? err_sys(err, -errno, "open the layer '%s'", path) : walk_tree(layer, NULL, &ops, err);
    for (size_t i = 1; i < ARRAY_LEN(m.to); i++)
        closep(&m.to[i]);
    return r;
}

/* A link of the image would lead to the host's folders here: what is below one is left to runsc, which follows it inside. */
static int add_name(int root, const char *path) {
    const char *slash = strrchr(path, '/');
    CLEANUP(freep) char *parent = slash ? str_dupf("%.*s", (int)(slash - path), path) : strdup(".");
    CLEANUP(closep) int dir = parent ? safepath_open(root, parent, O_PATH | O_DIRECTORY) : -ENOMEM;

    if (dir < 0)
        return dir == -ELOOP || dir == -ENOTDIR ? 0 : dir;
    return mkdirat(dir, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Names that every root has. */
static int add_names(int root) {
    int r = 0;

    for (size_t i = 0; r == 0 && container_root_folders[i]; i++)
        r = add_name(root, container_root_folders[i]);
    return r;
}

static int make_tree(struct private_dir *d, const struct strv *layers, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s/root", d->path);
    CLEANUP(closep) int root = -1;
    int r = !path ? -ENOMEM : mkdir(path, 0755) < 0 ? -errno : 0;

    if (r == 0 && (root = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        r = -errno;
    if (r < 0)
        return err_sys(err, r, "make the root of the image");
    for (size_t i = layers->len; r == 0 && i-- > 0;) /* the topmost comes first */
        r = merge_layer(layers->v[i], root, err);
    if (r == 0 && (r = add_names(root)) < 0)
        err_sys(err, r, "names of the root");
    return r;
}

int runsc_image_root(struct container_box *b, struct err *err) {
    CLEANUP(freep) char *home = NULL, *place = NULL;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : paths_state(environ, home, "private", &place, err);
    if (r < 0 || !place)
        return r < 0 ? r : err_set(err, -ENOENT, "an image needs a place for its root; set HOME or XDG_STATE_HOME");
    private_dir_sweep(place);
    r = private_dir_make(place, &b->image_root, err);
    if (r == 0 && chmod(b->image_root.path, 0711) < 0) /* the sandbox of root's is another user's */
        r = err_sys(err, -errno, "folder '%s'", b->image_root.path);
    return r < 0 ? r : make_tree(&b->image_root, &b->plan.layers, err);
}
