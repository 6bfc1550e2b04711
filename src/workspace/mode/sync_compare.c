/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between the two sides. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/copy/xattrs.h"
#include "workspace/mode/sync_inner.h"

enum { COMPARE_AT_ONCE = 64 * 1024 };

char *sync_link_target(int root, const char *path) {
    CLEANUP(closep) int fd = place_open(root, path, O_PATH);
    char target[PATH_MAX];
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof target);

    return n < 0 || n == sizeof target ? NULL : strndup(target, (size_t)n);
}

int sync_open_seen(int root, const char *path, const struct manifest_stamp *seen) {
    CLEANUP(closep) int fd = place_open(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    struct manifest_stamp now;
    struct stat st;

    if (fd < 0)
        return fd == -EACCES || fd == -EPERM ? fd : -ESTALE;
    if (fstat(fd, &st) < 0)
        return -errno;
    now = manifest_stamp_of(&st);
    return manifest_same(&now, seen) ? TAKE_FD(fd) : -ESTALE;
}

static ssize_t read_full(int fd, char *buf, size_t size) {
    size_t len = 0;

    while (len < size) {
        ssize_t n = fd_read_some(fd, buf + len, size - len);

        if (n < 0)
            return n;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

int sync_same_bytes(int a, int b) {
    char x[COMPARE_AT_ONCE], y[COMPARE_AT_ONCE];

    for (;;) {
        ssize_t n = read_full(a, x, sizeof x), m = read_full(b, y, sizeof y);

        if (n < 0 || m < 0)
            return (int)MIN_OF(n, m);
        if (n != m || memcmp(x, y, (size_t)n) != 0)
            return 0;
        if (n == 0)
            return 1;
    }
}

static int same_xattrs(int a, int b) {
    CLEANUP(buf_done) struct buf x = BUF_INIT(XATTRS_MAX);
    CLEANUP(buf_done) struct buf y = BUF_INIT(XATTRS_MAX);
    int r = xattrs_read(a, &x);

    if (r == 0)
        r = xattrs_read(b, &y);
    return r < 0 ? r : x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
}

static int files_differ(const struct syncer *s, const struct manifest_entry *e, unsigned *what, bool *settled) {
    CLEANUP(closep) int host = sync_open_seen(s->root[SYNC_HOST], e->path, &e->host);
    CLEANUP(closep) int copy = host < 0 ? -1 : sync_open_seen(s->root[SYNC_COPY], e->path, &e->copy);
    int r = host < 0 ? host : copy;

    if (r < 0)
        return r;
    *settled = !place_is_written(host) && !place_is_written(copy);
    r = e->host.size == e->copy.size ? sync_same_bytes(host, copy) : 0;
    if (r == 0)
        *what |= CHANGE_CONTENT;
    if (r >= 0)
        r = same_xattrs(host, copy);
    if (r == 0)
        *what |= CHANGE_XATTR;
    return MIN_OF(r, 0);
}

static int links_differ(const struct syncer *s, const struct manifest_entry *e, unsigned *what) {
    CLEANUP(freep) char *host = sync_link_target(s->root[SYNC_HOST], e->path);
    CLEANUP(freep) char *copy = sync_link_target(s->root[SYNC_COPY], e->path);

    if (!host || !copy)
        return -ESTALE;
    if (!str_eq(host, copy))
        *what |= CHANGE_LINK;
    return 0;
}

int sync_differs(const struct syncer *s, const struct manifest_entry *e, unsigned *ret, bool *ret_settled) {
    unsigned what = 0;
    bool settled = true;
    int r = 0;

    if ((e->host.mode & S_IFMT) != (e->copy.mode & S_IFMT))
        what = CHANGE_TYPE;
    else if (S_ISLNK(e->host.mode))
        r = links_differ(s, e, &what);
    else {
        if ((e->host.mode ^ e->copy.mode) & 0777)
            what = CHANGE_MODE;
        if (S_ISREG(e->host.mode))
            r = files_differ(s, e, &what, &settled);
    }
    if (r == 0) {
        *ret = what;
        *ret_settled = settled;
    }
    return r;
}
