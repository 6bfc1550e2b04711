/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/copy/xattrs.h"

#include <errno.h>
#include <limits.h>
#include <sys/xattr.h>

#include "base/str.h"

static const char prefix[] = "user.";

static bool is_none(int e) {
    return e == ENOTSUP || e == ENOSYS;
}

/* Fills v with the user.* names of a list as flistxattr() gives it; returns how many. */
static size_t sort_names(const char *list, size_t len, const char **v) {
    size_t n = 0;

    for (const char *s = list; s < list + len; s += strlen(s) + 1)
        if (str_starts(s, prefix))
            v[n++] = s;
    qsort(v, n, sizeof *v, str_compare);
    return n;
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

static int read_values(int fd, const char *list, size_t len, struct buf *ret) {
    CLEANUP(freep) const char **names = calloc(len, sizeof *names);
    CLEANUP(freep) char *value = malloc(XATTR_SIZE_MAX);
    size_t n;
    int r = 0;

    if (!names || !value)
        return -ENOMEM;
    n = sort_names(list, len, names);
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
