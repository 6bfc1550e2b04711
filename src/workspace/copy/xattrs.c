/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes user.* attributes. */
#include "workspace/copy/xattrs.h"

#include <errno.h>
#include <limits.h>
#include <sys/xattr.h>

#include "base/str.h"

static const char prefix[] = "user.";

static bool is_none(int e) {
    return e == ENOTSUP || e == ENOSYS;
}

static int add_value(int fd, const char *name, char *value, struct buf *ret) {
    ssize_t n = fgetxattr(fd, name, value, XATTR_SIZE_MAX);
    uint32_t len;

    if (n < 0)
        return errno == ENODATA ? 0 : -errno; /* removed meanwhile */
    len = (uint32_t)n;
    if (ret->len + strlen(name) + 1 + sizeof len + len > XATTRS_MAX)
        return -E2BIG;
    buf_add(ret, name, strlen(name) + 1);
    buf_add(ret, &len, sizeof len);
    buf_add(ret, value, len);
    return buf_ok(ret) ? 0 : -ENOMEM;
}

/* list: as flistxattr() gives it. */
static int read_values(int fd, const char *list, size_t len, struct buf *ret) {
    CLEANUP(freep) const char **names = calloc(len, sizeof *names);
    CLEANUP(freep) char *value = malloc(XATTR_SIZE_MAX);
    size_t n = 0;
    int r = 0;

    if (!names || !value)
        return -ENOMEM;
    for (const char *s = list; s < list + len; s += strlen(s) + 1)
        if (str_starts(s, prefix))
            names[n++] = s;
    qsort(names, n, sizeof *names, str_compare);
    for (size_t i = 0; i < n && r == 0; i++)
        r = add_value(fd, names[i], value, ret);
    return r;
}

int xattrs_read(int fd, struct buf *ret) {
    CLEANUP(freep) char *list = NULL;
    ssize_t len = flistxattr(fd, NULL, 0);

    if (len < 0)
        return is_none(errno) ? 0 : -errno;
    if (len == 0) /* nearly every file */
        return 0;
    list = malloc(XATTR_LIST_MAX);
    if (!list)
        return -ENOMEM;
    len = flistxattr(fd, list, XATTR_LIST_MAX);
    if (len < 0)
        return -errno;
    return len == 0 ? 0 : read_values(fd, list, (size_t)len, ret);
}

/* One attribute of a block: its length in all, 0 if the block ends or is broken here. */
static size_t xattr_len(const char *at, size_t left) {
    size_t name = strnlen(at, left) + 1;
    uint32_t value;

    if (left < name + sizeof value)
        return 0;
    memcpy(&value, at + name, sizeof value);
    return value <= left - name - sizeof value ? name + sizeof value + value : 0;
}

void xattrs_add_plain(struct buf *ret, const char *block, size_t len) {
    size_t n;

    for (size_t at = 0; at < len && (n = xattr_len(block + at, len - at)) > 0; at += n)
        if (!str_starts(block + at, "user.overlay."))
            buf_add(ret, block + at, n);
}

int xattrs_read_plain(int fd, struct buf *ret) {
    CLEANUP(buf_done) struct buf all = BUF_INIT(XATTRS_MAX);
    int r = xattrs_read(fd, &all);

    xattrs_add_plain(ret, buf_str(&all), all.len);
    return r < 0 ? r : buf_ok(ret) ? 0 : -ENOMEM;
}

bool xattrs_are(int fd, const char *block, size_t len) {
    CLEANUP(buf_done) struct buf now = BUF_INIT(XATTRS_MAX);

    return xattrs_read(fd, &now) == 0 && now.len == len && (len == 0 || memcmp(now.data, block, len) == 0);
}

int xattrs_write(int fd, const char *block, size_t len) {
    const char *s = block, *end = block + len;

    while (s < end) {
        const char *name = s, *stop = memchr(s, 0, (size_t)(end - s));
        uint32_t n;

        if (!stop || !str_starts(name, prefix) || (size_t)(end - stop) < 1 + sizeof n)
            return -EBADMSG;
        memcpy(&n, stop + 1, sizeof n);
        s = stop + 1 + sizeof n;
        if (n > (size_t)(end - s))
            return -EBADMSG;
        if (fsetxattr(fd, name, s, n, 0) < 0)
            return is_none(errno) ? 0 : -errno;
        s += n;
    }
    return 0;
}

int xattrs_copy(int from, int to) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(XATTRS_MAX);
    int r = xattrs_read(from, &b);

    return r < 0 || b.len == 0 ? r : xattrs_write(to, b.data, b.len);
}
