/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/change/change_priv.h"
#include "workspace/copy/same.h"
#include "workspace/copy/xattrs.h"

/* Larger files of equal size are called different without reading them: by touching a disk image of the host's, the run could
 * make every look at its changes take minutes. */
#define COMPARE_MAX ((uint64_t)4 << 30)

/* overlayfs keeps its own records under this name. */
#define OVERLAY_XATTR "user.overlay."

void view_done(struct change_view *v) {
    free(v->link);
    *v = (struct change_view)CHANGE_VIEW_INIT;
}

static int read_link(int dir, const char *name, char **ret) {
    char buf[PATH_MAX];
    ssize_t n = readlinkat(dir, name, buf, sizeof buf - 1);

    if (n < 0)
        return -errno;
    buf[n] = 0;
    *ret = strdup(buf);
    return *ret ? 0 : -ENOMEM;
}

static int look_here(int dir, const char *name, struct change_view *v) {
    if (fstatat(dir, name, &v->st, AT_SYMLINK_NOFOLLOW | (name[0] ? 0 : AT_EMPTY_PATH)) < 0)
        return -errno;
    return S_ISLNK(v->st.st_mode) ? read_link(dir, name, &v->link) : 0;
}

static int look_below(int dir, const char *path, struct change_view *v) {
    CLEANUP(closep) int fd = safepath_open(dir, path, O_PATH);

    return fd < 0 ? fd : look_here(fd, "", v);
}

int view_look(int dir, const char *path, struct change_view *ret) {
    CLEANUP(view_done) struct change_view v = {.dir = dir, .name = path};
    int r = strchr(path, '/') ? look_below(dir, path, &v) : look_here(dir, path, &v);

    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP) {
        *ret = (struct change_view)CHANGE_VIEW_INIT;
        return 0;
    }
    if (r == -EINVAL) /* a link that is none any more */
        return -ESTALE;
    if (r < 0)
        return r;
    *ret = v;
    v.link = NULL;
    return 0;
}

/* A number is not enough: a hard link may have been written to since. */
static bool is_stored(const struct journal *j, const struct journal_entry *e) {
    CLEANUP(closep) int fd = journal_blob(j, e);

    return fd >= 0;
}

int view_of_entry(const struct journal *j, const struct journal_entry *e, struct change_view *ret) {
    static const mode_t types[] = {
        [JOURNAL_ABSENT] = 0,    [JOURNAL_FILE] = S_IFREG,  [JOURNAL_LINK] = S_IFLNK,
        [JOURNAL_DIR] = S_IFDIR, [JOURNAL_OTHER] = S_IFIFO, /* which one is not known */
    };
    struct change_view v = {.dir = -1, .entry = e};

    v.st.st_dev = (dev_t)e->dev;
    v.st.st_ino = (ino_t)e->ino;
    v.st.st_mode = types[e->kind] ? types[e->kind] | (e->mode & 07777) : 0;
    v.st.st_size = e->kind == JOURNAL_FILE ? (off_t)e->size : 0;
    v.unknown = e->kind == JOURNAL_FILE && !is_stored(j, e);
    if (e->kind == JOURNAL_LINK && !(v.link = strdup(e->link ? e->link : "")))
        return -ENOMEM;
    *ret = v;
    return 0;
}

uint64_t view_ctime(const struct change_view *v) {
    return (uint64_t)v->st.st_ctim.tv_sec * 1000000000 + (uint64_t)v->st.st_ctim.tv_nsec;
}

int view_open(const struct change_view *v, const struct journal *j) {
    CLEANUP(closep) int fd = -1;
    struct stat st;

    if (v->unknown)
        return -ENODATA;
    if (v->entry) {
        fd = journal_blob(j, v->entry);
        return fd == -ENOENT ? -ENODATA : TAKE_FD(fd);
    }
    if (!S_ISREG(v->st.st_mode) && !S_ISDIR(v->st.st_mode))
        return -ENOENT;
    /* A FIFO may have taken its place: that must not block. */
    fd = safepath_open(v->dir, v->name, O_RDONLY | O_NONBLOCK | O_NOCTTY | (S_ISDIR(v->st.st_mode) ? O_DIRECTORY : 0));
    if (fd < 0)
        return TAKE_FD(fd);
    if (fstat(fd, &st) < 0)
        return -errno;
    return (st.st_mode & S_IFMT) == (v->st.st_mode & S_IFMT) ? TAKE_FD(fd) : -ESTALE;
}

/* One attribute of a block of xattrs.h: its length in all, 0 if the block ends or is broken here. */
static size_t xattr_len(const char *at, size_t left) {
    size_t name = strnlen(at, left) + 1;
    uint32_t value;

    if (left < name + sizeof value)
        return 0;
    memcpy(&value, at + name, sizeof value);
    return value <= left - name - sizeof value ? name + sizeof value + value : 0;
}

static void drop_overlay_xattrs(const char *block, size_t len, struct buf *ret) {
    size_t n;

    for (size_t at = 0; at < len && (n = xattr_len(block + at, len - at)) > 0; at += n)
        if (!str_starts(block + at, OVERLAY_XATTR))
            buf_add(ret, block + at, n);
}

static int read_xattrs(const struct change_view *v, int fd, struct buf *ret) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(XATTRS_MAX);
    int r = 0;

    if (v->entry)
        drop_overlay_xattrs(v->entry->xattrs, v->entry->xattrs ? v->entry->xattrs_len : 0, ret);
    else
        r = xattrs_read(fd, &all);
    if (r < 0)
        return r;
    drop_overlay_xattrs(buf_str(&all), all.len, ret);
    return buf_ok(ret) ? 0 : -ENOMEM;
}

static int xattrs_equal(const struct change_view *old, int old_fd, const struct change_view *now, int now_fd) {
    CLEANUP(buf_done) struct buf a = BUF_INIT(XATTRS_MAX), b = BUF_INIT(XATTRS_MAX);
    int r = read_xattrs(old, old_fd, &a);

    if (r == 0)
        r = read_xattrs(now, now_fd, &b);
    if (r < 0)
        return r;
    return a.len == b.len && memcmp(buf_str(&a), buf_str(&b), a.len) == 0;
}

static bool has_xattrs_at_hand(const struct change_view *v, int fd) {
    return v->entry || fd >= 0;
}

/* Files and folders, both of one type; adds to *what. */
static int compare_open(const struct change_view *old, const struct change_view *now, const struct journal *j, unsigned *what) {
    bool is_file = S_ISREG(now->st.st_mode);
    CLEANUP(closep) int b = view_open(now, j);
    CLEANUP(closep) int a = old->unknown || (old->entry && !is_file) ? -ENODATA : view_open(old, j);
    int r;

    if (is_file) {
        r = a >= 0 && b >= 0 ? same_content(a, b, COMPARE_MAX) : 0;
        if (r <= 0)
            *what |= CHANGE_CONTENT;
        if (r < 0)
            return 1;
    }
    if (b < 0 || (a < 0 && a != -ENODATA))
        return 1;
    if (!has_xattrs_at_hand(old, a))
        return 0;
    r = xattrs_equal(old, a, now, b);
    if (r <= 0)
        *what |= CHANGE_XATTR;
    return r == -ENOMEM ? r : r < 0;
}

int view_compare(const struct change_view *old, const struct change_view *now, const struct journal *j, unsigned *ret_what) {
    mode_t type = now->st.st_mode & S_IFMT;
    unsigned what = 0;
    int r = 0;

    if ((old->st.st_mode & S_IFMT) != type) {
        *ret_what = CHANGE_TYPE;
        return 0;
    }
    if (type == S_IFLNK) {
        *ret_what = old->link && str_eq(old->link, now->link) ? 0 : CHANGE_LINK;
        return 0;
    }
    if (((old->st.st_mode ^ now->st.st_mode) & 07777) != 0)
        what = CHANGE_MODE;
    if (type == S_IFREG || type == S_IFDIR)
        r = compare_open(old, now, j, &what);
    else if (!old->entry && old->st.st_rdev != now->st.st_rdev)
        what |= CHANGE_TYPE;
    if (r >= 0)
        *ret_what = what;
    return r;
}
