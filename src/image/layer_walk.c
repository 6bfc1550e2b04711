/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the folder that an entry of a layer belongs into: through links, in all layers, and never out of the image. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "image/image_layer.h"
#include "os/fd.h"
#include "os/safepath.h"

static const char opaque[] = "user.overlay.opaque";

bool layer_is_whiteout(mode_t mode, dev_t rdev) {
    return S_ISCHR(mode) && rdev == makedev(0, 0);
}

int layer_clean(const char *path, char out[static TAR_PATH_MAX + 1]) {
    size_t n = 0;

    while (*path) {
        size_t len = strcspn(path, "/");

        if (len == 2 && path[0] == '.' && path[1] == '.') {
            while (n && out[--n] != '/')
                ;
        } else if (len && !(len == 1 && path[0] == '.')) {
            if (len > LAYER_NAME_MAX || n + len + 1 > TAR_PATH_MAX)
                return -ENAMETOOLONG;
            if (n)
                out[n++] = '/';
            memcpy(out + n, path, len);
            n += len;
        }
        path += len + (path[len] == '/');
    }
    out[n] = 0;
    return 0;
}

int layer_add_time(struct image_layer *l, const char *path, int64_t s, uint32_t ns) {
    struct layer_time t = {.path = strdup(path), .s = s, .ns = ns};

    if (t.path && VEC_ADD(l->times, l->n_times, t) == 0)
        return 0;
    free(t.path);
    return -ENOMEM;
}

int layer_make_opaque(int dir, const char *name) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 || fsetxattr(fd, opaque, "y", 1, 0) < 0 ? -errno : 0;
}

/* Does this layer hide what is below it at this path? */
static bool opaque_on_way(int layer, const char *path) {
    char part[TAR_PATH_MAX + 1], value;

    for (const char *slash = path; slash; slash = strchr(slash + 1, '/')) {
        CLEANUP(closep) int fd = -1;

        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        fd = safepath_open(layer, part[0] ? part : ".", O_RDONLY | O_DIRECTORY);
        if (fd < 0)
            return false;
        if (fgetxattr(fd, opaque, &value, 1) == 1 && value == 'y')
            return true;
    }
    return false;
}

/* Something else than a folder on the way, a whiteout among them, covers what is below as well. */
int layer_find_below(const struct image_layer *l, const char *path) {
    for (size_t i = 0; i < l->n_below; i++) {
        int fd = safepath_open(l->below[i], path, O_PATH | O_NOFOLLOW);
        struct stat st;

        if (fd >= 0 && (fstat(fd, &st) < 0 || layer_is_whiteout(st.st_mode, st.st_rdev))) {
            close(fd);
            return -ENOENT;
        }
        if (fd >= 0)
            return fd;
        if (fd == -ENOTDIR || fd == -ELOOP || (fd == -ENOENT && opaque_on_way(l->below[i], path)))
            return -ENOENT;
        if (fd != -ENOENT)
            return fd;
    }
    return -ENOENT;
}

/* A folder of the layer that no entry names: as it is below. below: O_PATH; -1: there is none. */
static int copy_folder(struct image_layer *l, const char *path, int below) {
    char owner[64];
    CLEANUP(closep) int fd = -1;
    struct stat st;
    ssize_t n;

    if (below < 0)
        return mkdirat(l->top, path, 0755) < 0 ? -errno : 0;
    if (fstat(below, &st) < 0 || mkdirat(l->top, path, (st.st_mode & 01777) | 0700) < 0)
        return -errno;
    fd = openat(below, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    n = fd < 0 ? -1 : fgetxattr(fd, "user.bawn.owner", owner, sizeof owner);
    if (n > 0) {
        CLEANUP(closep) int made = safepath_open(l->top, path, O_RDONLY | O_DIRECTORY);

        if (made >= 0 && fsetxattr(made, "user.bawn.owner", owner, (size_t)n, 0) < 0 && errno != ENOTSUP)
            return -errno;
    }
    return layer_add_time(l, path, st.st_mtim.tv_sec, (uint32_t)st.st_mtim.tv_nsec);
}

static int read_target(int link, char target[static TAR_PATH_MAX + 1]) {
    ssize_t n = readlinkat(link, "", target, TAR_PATH_MAX);

    if (n < 0)
        return -errno;
    target[n] = 0;
    return 1;
}

/* One component that the layer itself has no folder for. Returns 0: it is a folder of the layer now; 1: a link, whose target is in
 * `target`. */
static int step_slow(void *arg, const char *path, bool last UNUSED, char target[static TAR_PATH_MAX + 1]) {
    struct image_layer *l = arg;
    CLEANUP(closep) int fd = safepath_open(l->top, path, O_PATH | O_NOFOLLOW);
    bool here = fd >= 0, covered = false;
    struct stat st = {0};
    int r;

    if (fd < 0 && fd != -ENOENT)
        return fd;
    if (fd < 0 && !opaque_on_way(l->top, path))
        fd = layer_find_below(l, path);
    if (fd < 0 && fd != -ENOENT)
        return fd;
    if (fd >= 0 && fstat(fd, &st) < 0)
        return -errno;
    if (here && layer_is_whiteout(st.st_mode, st.st_rdev)) { /* removed by this layer, and there again */
        closep(&fd);
        if (unlinkat(l->top, path, 0) < 0)
            return -errno;
        covered = true;
    }
    if (fd >= 0 && S_ISLNK(st.st_mode))
        return read_target(fd, target);
    if (fd >= 0 && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (here && !covered)
        return 0;
    r = copy_folder(l, path, fd);
    return r < 0 ? r : covered ? layer_make_opaque(l->top, path) : 0;
}

/* Looks at one component: 0: a folder, 1: a link, whose target is in `target`; 2: what is looked for. */
typedef int walk_step(void *arg, const char *real, bool last, char target[static TAR_PATH_MAX + 1]);

/* The next component of `rest` goes to the end of `real`. 1: there was one; 0: it meant nothing. */
static int walk_take(char *rest, char real[static TAR_PATH_MAX + 1], size_t *ret_at) {
    size_t len = strcspn(rest, "/"), at = strlen(real), skip = len + (rest[len] == '/');
    bool none = len == 0 || (len == 1 && rest[0] == '.');

    if (len == 2 && rest[0] == '.' && rest[1] == '.') {
        *(strrchr(real, '/') ? strrchr(real, '/') : real) = 0;
        none = true;
    }
    if (!none && (len > LAYER_NAME_MAX || at + len + 1 > TAR_PATH_MAX))
        return -ENAMETOOLONG;
    if (!none)
        snprintf(real + at, TAR_PATH_MAX + 1 - at, "%s%.*s", at ? "/" : "", (int)len, rest);
    memmove(rest, rest + skip, strlen(rest + skip) + 1);
    *ret_at = at;
    return none ? 0 : 1;
}

/* From the image's root along `path`; `real` is where that led. 0: to its end; 2: a step said so. */
static int walk_path(const char *path, char real[static TAR_PATH_MAX + 1], walk_step *step, void *arg) {
    char rest[TAR_PATH_MAX + 1], target[TAR_PATH_MAX + 1], joined[TAR_PATH_MAX + 1];
    int links = 0;

    snprintf(rest, sizeof rest, "%s", path);
    real[0] = 0;
    while (rest[0]) {
        size_t at;
        int r = walk_take(rest, real, &at);

        if (r > 0)
            r = step(arg, real, rest[0] == 0, target);
        if (r < 0 || r == 2)
            return r;
        if (r == 0)
            continue;
        if (++links > LAYER_LINKS_MAX)
            return -ELOOP;
        real[target[0] == '/' ? 0 : at] = 0;
        if ((size_t)snprintf(joined, sizeof joined, "%s%s%s", target, rest[0] ? "/" : "", rest) >= sizeof joined)
            return -ENAMETOOLONG;
        memcpy(rest, joined, sizeof rest);
    }
    return 0;
}

void layer_forget_parent(struct image_layer *l) {
    closep(&l->parent_fd);
}

void layer_doubt_parent(struct image_layer *l) {
    l->parent[0] = 0; /* no folder that is open has this name */
}

int layer_parent(struct image_layer *l, const char *path, int *ret_fd, struct err *err) {
    int r = 0;

    if (path[0] == 0) {
        l->real[0] = 0;
        *ret_fd = l->top;
        return 0;
    }
    if (l->parent_fd >= 0 && str_eq(path, l->parent)) {
        snprintf(l->real, sizeof l->real, "%s", l->parent_real);
        *ret_fd = l->parent_fd;
        return 0;
    }
    closep(&l->parent_fd);
    l->parent_fd = safepath_open(l->top, path, O_PATH | O_DIRECTORY);
    if (l->parent_fd >= 0)
        snprintf(l->real, sizeof l->real, "%s", path);
    else if ((r = walk_path(path, l->real, step_slow, l)) == 0)
        r = l->parent_fd = safepath_open(l->top, l->real[0] ? l->real : ".", O_PATH | O_DIRECTORY);
    if (r < 0)
        return err_sys(err, r, "the layer's folder '%.200s'", path);
    snprintf(l->parent, sizeof l->parent, "%s", path);
    snprintf(l->parent_real, sizeof l->parent_real, "%s", l->real);
    *ret_fd = l->parent_fd;
    return 0;
}

/* Looks only. */
static int step_look(void *arg, const char *real, bool last, char target[static TAR_PATH_MAX + 1]) {
    CLEANUP(closep) int fd = layer_find_below(arg, real);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -ENOENT;
    if (S_ISLNK(st.st_mode))
        return read_target(fd, target);
    return S_ISDIR(st.st_mode) ? 0 : S_ISREG(st.st_mode) && last ? 2 : -ENOENT;
}

int layers_open_file(const int *layers, size_t n, const char *path) {
    struct image_layer l = {.below = layers, .n_below = n};
    int r = walk_path(path, l.real, step_look, &l);

    if (r != 2)
        return r < 0 ? r : -EISDIR;
    for (size_t i = 0; i < n; i++) { /* the first that has it is the one that was found */
        int fd = safepath_open(layers[i], l.real, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);

        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}
