/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of a layer: what is made for it, and what it takes away. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "image/image_layer.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/safepath.h"

enum { HOLE_MIN = 4096, COPY_PART = 64 * 1024 };

static const char wh[] = ".wh.", wh_opaque[] = ".wh..wh..opq", wh_aufs[] = ".wh..wh.";

/* Where an entry goes: a folder of the layer, and a name in it that is no path. */
struct entry_place {
    int dir; /* borrowed */
    char parent[TAR_PATH_MAX + 1], real[TAR_PATH_MAX + 1];
    const char *name; /* "": the layer's root itself */
    char path[TAR_PATH_MAX + 1];
};

static int place_find(struct image_layer *l, const char *path, struct entry_place *p, struct err *err) {
    char *slash;
    int r = layer_clean(path, p->path);

    if (r < 0)
        return err_sys(err, r, "the layer's entry '%.200s'", path);
    slash = strrchr(p->path, '/');
    snprintf(p->parent, sizeof p->parent, "%.*s", slash ? (int)(slash - p->path) : 0, p->path);
    p->name = slash ? slash + 1 : p->path;
    return layer_parent(l, p->parent, &p->dir, err);
}

/* What is in the way goes. Returns 1 if it was no folder: then a new folder must not show what is below. */
static int clear_place(struct image_layer *l, const struct entry_place *p) {
    struct stat st;

    if (fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    layer_doubt_parent(l);
    if (S_ISDIR(st.st_mode))
        return remove_tree(p->dir, p->name);
    return unlinkat(p->dir, p->name, 0) < 0 ? -errno : 1;
}

static bool is_user_xattr(const char *name) {
    return str_starts(name, "user.") && !str_starts(name, "user.overlay.") && !str_starts(name, "user.bawn.");
}

/* File systems without attributes, and values that they do not take, are no reason to refuse an image. */
static int set_attributes(int fd, const struct tar_entry *e) {
    char owner[48];

    for (size_t i = 0; i < e->n_xattrs; i++)
        if (is_user_xattr(e->xattrs[i].name) && fsetxattr(fd, e->xattrs[i].name, e->xattrs[i].value, e->xattrs[i].len, 0) < 0 &&
            errno == EIO)
            return -errno;
    if (e->uid || e->gid) {
        snprintf(owner, sizeof owner, "%llu:%llu", (unsigned long long)e->uid, (unsigned long long)e->gid);
        if (fsetxattr(fd, "user.bawn.owner", owner, strlen(owner), 0) < 0 && errno == EIO)
            return -errno;
    }
    return 0;
}

static void entry_times(const struct tar_entry *e, struct timespec ret[2]) {
    ret[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    ret[1] = (struct timespec){.tv_sec = e->mtime, .tv_nsec = e->mtime_ns};
}

/* -- files -------------------------------------------------------------------------------------------------------------- */

static bool is_empty(const unsigned char *p, size_t n) {
    return n >= HOLE_MIN && p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Zeros are left out: a layer of nothing but zeros takes no room. *end: where the file ends after it. */
static int write_piece(int fd, const unsigned char *p, size_t n, uint64_t at, uint64_t *end) {
    while (n && !is_empty(p, n)) {
        ssize_t w = pwrite(fd, p, n, (off_t)at);

        if (w < 0 && errno == EINTR)
            continue;
        if (w < 0)
            return -errno;
        p += w;
        n -= (size_t)w;
        *end = at += (uint64_t)w;
    }
    return 0;
}

static int write_content(struct tar *t, int fd, struct err *err) {
    const struct tar_entry *e = &t->entry;
    uint64_t at = e->sparse && e->n_pieces ? e->pieces[0].at : 0, left = e->sparse && e->n_pieces ? e->pieces[0].len : e->packed;
    const unsigned char *p;
    uint64_t end = 0;
    size_t piece = 0;
    ssize_t n;

    while ((n = tar_data(t, &p, err)) > 0)
        while (n > 0) {
            size_t part;
            int r;

            while (left == 0 && e->sparse && piece + 1 < e->n_pieces) {
                at = e->pieces[++piece].at;
                left = e->pieces[piece].len;
            }
            part = (size_t)MIN_OF((uint64_t)n, left);
            if (part == 0) /* more data than pieces: tar_pieces_check() does not let that happen */
                return err_set(err, -EBADMSG, "the archive is damaged: a file has more data than it says");
            r = write_piece(fd, p, part, at, &end);
            if (r < 0)
                return err_sys(err, r, "write '%.200s'", e->path);
            at += part;
            left -= part;
            p += part;
            n -= (ssize_t)part;
        }
    if (n < 0)
        return (int)n;
    return end != e->size && ftruncate(fd, (off_t)e->size) < 0 ? err_sys(err, -errno, "write '%.200s'", e->path) : 0;
}

static int make_file(struct image_layer *l, struct tar *t, const struct entry_place *p, struct err *err) {
    const struct tar_entry *e = &t->entry;
    mode_t mode = (e->mode & 0777) | 0400;
    CLEANUP(closep) int fd = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    struct timespec times[2];
    int r = 0;

    if (fd < 0 && errno == EEXIST) {
        r = clear_place(l, p);
        if (r >= 0)
            fd = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    }
    if (r < 0 || fd < 0)
        return err_sys(err, r < 0 ? r : -errno, "make '%.200s'", e->path);
    if (e->type == TAR_FILE && e->size > 0 && (r = write_content(t, fd, err)) < 0)
        return r;
    entry_times(e, times);
    r = set_attributes(fd, e);
    if (r == 0 && futimens(fd, times) < 0 && errno != EINVAL)
        r = -errno;
    return r < 0 ? err_sys(err, r, "make '%.200s'", e->path) : 0;
}

/* -- everything else ---------------------------------------------------------------------------------------------------- */

static int folder_attributes(struct image_layer *l, struct tar *t, const struct entry_place *p) {
    CLEANUP(closep) int fd = openat(p->dir, p->name[0] ? p->name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const struct tar_entry *e = &t->entry;
    int r = fd < 0 || fchmod(fd, (e->mode & 01777) | 0700) < 0 ? -errno : set_attributes(fd, e);

    return r < 0 ? r : layer_add_time(l, p->real, e->mtime, e->mtime_ns);
}

static int make_folder(struct image_layer *l, struct tar *t, const struct entry_place *p, struct err *err) {
    struct stat st;
    int r = 0, cleared = 0;

    if (p->name[0] && mkdirat(p->dir, p->name, 0700) < 0) {
        r = errno == EEXIST && fstatat(p->dir, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
        if (r == 0 && !S_ISDIR(st.st_mode)) {
            cleared = r = clear_place(l, p);
            r = r >= 0 && mkdirat(p->dir, p->name, 0700) < 0 ? -errno : r;
        }
    }
    if (r >= 0 && cleared > 0)
        r = layer_make_opaque(p->dir, p->name);
    r = r < 0 ? r : folder_attributes(l, t, p);
    layer_doubt_parent(l); /* it may be in the place of a link of a layer below, through which that was found */
    return r < 0 ? err_sys(err, r, "make the folder '%.200s'", t->entry.path) : 0;
}

static int try_twice(struct image_layer *l, const struct entry_place *p,
                     int (*make)(const struct entry_place *, const struct tar_entry *), const struct tar_entry *e) {
    int r = make(p, e);

    if (r != -EEXIST)
        return r;
    r = clear_place(l, p);
    return r < 0 ? r : make(p, e);
}

static int make_symlink(const struct entry_place *p, const struct tar_entry *e) {
    return symlinkat(e->target, p->dir, p->name) < 0 ? -errno : 0;
}

static int make_fifo(const struct entry_place *p, const struct tar_entry *e) {
    return mkfifoat(p->dir, p->name, (e->mode & 0777) | 0400) < 0 ? -errno : 0;
}

static int make_other(struct image_layer *l, const struct tar_entry *e, const struct entry_place *p, struct err *err) {
    struct timespec times[2];
    int r = try_twice(l, p, e->type == TAR_SYMLINK ? make_symlink : make_fifo, e);

    layer_doubt_parent(l);
    entry_times(e, times);
    if (r == 0 && utimensat(p->dir, p->name, times, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL)
        r = -errno;
    return r < 0 ? err_sys(err, r, "make '%.200s'", e->path) : 0;
}

/* Where data begins at or after `at`; `size`: nothing but a hole. */
static uint64_t find_data(int fd, uint64_t at, uint64_t size) {
    off_t data = lseek(fd, (off_t)at, SEEK_DATA);

    return data >= 0 ? MIN_OF((uint64_t)data, size) : errno == ENXIO ? size : at;
}

/* Holes stay holes: a file of a layer below may be all hole, and each hard link to one would fill the disk with it. */
static int copy_data(struct image_layer *l, int from, int to, uint64_t size) {
    unsigned char part[COPY_PART];
    uint64_t end = 0;
    ssize_t n;

    for (uint64_t at = find_data(from, 0, size); at < size; at = find_data(from, at + (uint64_t)n, size)) {
        int r;

        n = fd_pread_full(from, part, (size_t)MIN_OF(size - at, (uint64_t)COPY_PART), (off_t)at);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        l->copied += (uint64_t)n;
        if (l->copied > l->ceiling)
            return -EFBIG;
        r = write_piece(to, part, (size_t)n, at, &end);
        if (r < 0)
            return r;
    }
    return end != size && ftruncate(to, (off_t)size) < 0 ? -errno : 0;
}

/* A file of a layer below that gets a second name here: it comes into this layer first, as overlayfs would do it. */
static int copy_up(struct image_layer *l, const struct entry_place *p) {
    CLEANUP(closep) int from = layers_open_file(l->below, l->n_below, p->real), to = -1, found = layer_find_below(l, p->real);
    struct stat st;
    int r;

    if (found < 0 || fstat(found, &st) < 0 || !S_ISREG(st.st_mode) || from < 0)
        return -ENOENT;
    to = openat(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, st.st_mode & 0777);
    if (to < 0)
        return -errno;
    l->bytes += (uint64_t)st.st_size;
    r = copy_data(l, from, to, (uint64_t)st.st_size);
    return r < 0 ? r : futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0 ? -errno : 0;
}

static void place_real(const struct image_layer *l, struct entry_place *p) {
    size_t n = (size_t)snprintf(p->real, sizeof p->real, "%s", l->real);

    snprintf(p->real + n, sizeof p->real - n, "%s%s", n && p->name[0] ? "/" : "", p->name);
}

/* Only to what is there already: an earlier entry, or a layer below. */
static int make_hard_link(struct image_layer *l, const struct tar_entry *e, struct entry_place *p, struct err *err) {
    struct entry_place from;
    CLEANUP(closep) int dir = fcntl(p->dir, F_DUPFD_CLOEXEC, 3);
    struct stat st, there;
    int r = dir < 0 ? err_sys(err, -errno, "make '%.200s'", e->path) : place_find(l, e->target, &from, err);

    if (r < 0)
        return r;
    place_real(l, &from);
    p->dir = dir; /* the search for the other may have closed it */
    if (!from.name[0])
        return err_set(err, -EBADMSG, "the layer has a hard link '%.200s' to a folder", e->path);
    r = fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == -ENOENT && (r = copy_up(l, &from)) == 0)
        r = fstatat(from.dir, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == -EFBIG)
        return err_set(err, r, "a layer takes more than %llu bytes of those below: it is made to fill the disk",
                       (unsigned long long)l->ceiling);
    if (r == -ENOENT || (r == 0 && layer_is_whiteout(st.st_mode, st.st_rdev)))
        return err_set(err, -EBADMSG, "the layer has a hard link '%.200s' to '%.200s', which is not there", e->path, e->target);
    if (r == 0 && S_ISDIR(st.st_mode))
        return err_set(err, -EBADMSG, "the layer has a hard link '%.200s' to a folder", e->path);
    if (r == 0 && fstatat(dir, p->name, &there, AT_SYMLINK_NOFOLLOW) == 0) {
        if (there.st_ino == st.st_ino)
            return 0;
        r = MIN_OF(clear_place(l, p), 0);
    }
    if (r == 0 && linkat(from.dir, from.name, dir, p->name, 0) < 0)
        r = -errno;
    return r < 0 ? err_sys(err, r, "make '%.200s'", e->path) : 0;
}

/* -- whiteouts ---------------------------------------------------------------------------------------------------------- */

/* What this layer itself has stays, whichever comes first; only what is below goes. */
static int take_away(const struct entry_place *p, const char *name) {
    struct stat st;

    if (mknodat(p->dir, name, S_IFCHR, makedev(0, 0)) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    if (fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return S_ISDIR(st.st_mode) ? layer_make_opaque(p->dir, name) : 0;
}

static int apply_whiteout(const struct tar_entry *e, const struct entry_place *p, struct err *err) {
    const char *name = p->name + strlen(wh);
    int r = 0;

    if (str_eq(p->name, wh_opaque))
        r = layer_make_opaque(p->dir, ".");
    else if (str_starts(p->name, wh_aufs)) /* how aufs remembered hard links: nothing of the image's */
        return 0;
    else if (!name[0] || str_eq(name, ".") || str_eq(name, ".."))
        return err_set(err, -EBADMSG, "the layer has a whiteout '%.200s' of nothing", e->path);
    else
        r = take_away(p, name);
    if (r == -ENOTSUP)
        return err_set(err, r, "the file system of the image store has no extended attributes (user.*), which layers need");
    return r < 0 ? err_sys(err, r, "take away '%.200s'", e->path) : 0;
}

int image_layer_apply(struct image_layer *l, struct tar *t, struct err *err) {
    const struct tar_entry *e = &t->entry;
    struct entry_place p;
    int r;

    if (++l->entries > LAYER_ENTRIES_MAX)
        return err_set(err, -E2BIG, "the layer has more than %d entries", LAYER_ENTRIES_MAX);
    r = place_find(l, e->path, &p, err);
    if (r < 0)
        return r;
    place_real(l, &p);
    if (str_starts(p.name, wh))
        return apply_whiteout(e, &p, err);
    if (e->type != TAR_DIR && !p.name[0])
        return err_set(err, -EBADMSG, "the layer has something else than a folder as its root");
    l->bytes += e->type == TAR_FILE ? e->packed : 0;
    switch (e->type) {
    case TAR_DIR:
        return make_folder(l, t, &p, err);
    case TAR_LINK:
        return make_hard_link(l, e, &p, err);
    case TAR_SYMLINK:
    case TAR_FIFO:
        return make_other(l, e, &p, err);
    case TAR_FILE:
    case TAR_CHAR:
    case TAR_BLOCK_DEVICE:
        return make_file(l, t, &p, err);
    }
    return 0;
}

int layer_finish(struct image_layer *l, struct err *err) {
    layer_forget_parent(l);
    for (size_t i = 0; i < l->n_times; i++) {
        const struct layer_time *t = &l->times[i];
        CLEANUP(closep) int fd = safepath_open(l->top, t->path[0] ? t->path : ".", O_RDONLY | O_DIRECTORY);
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t->s, .tv_nsec = t->ns}};

        /* it may have been replaced since, and time stamps have their own limits */
        if (fd >= 0 && futimens(fd, times) < 0 && errno != EINVAL)
            return err_sys(err, -errno, "set the time of '%.200s'", t->path);
    }
    return 0;
}

void image_layer_done(struct image_layer *l) {
    layer_forget_parent(l);
    for (size_t i = 0; i < l->n_times; i++)
        free(l->times[i].path);
    free(l->times);
    *l = (struct image_layer)LAYER_INIT;
}
