/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/apply/apply_same.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "workspace/apply/apply.h"
#include "workspace/copy/place.h"
#include "workspace/copy/xattrs.h"
#include "workspace/run/journal.h"

enum { BLOCK = 64 * 1024, TEXT_LOOK = 8 * 1024 };

int apply_same_content(int a, int b) {
    CLEANUP(freep) char *x = malloc(BLOCK), *y = malloc(BLOCK);
    struct stat sa, sb;

    if (!x || !y)
        return -ENOMEM;
    if (fstat(a, &sa) < 0 || fstat(b, &sb) < 0)
        return -errno;
    if (!S_ISREG(sa.st_mode) || !S_ISREG(sb.st_mode) || sa.st_size != sb.st_size)
        return 0;
    if (sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino)
        return 1;
    for (off_t at = 0;; at += BLOCK) {
        ssize_t n = fd_pread_full(a, x, BLOCK, at), m = fd_pread_full(b, y, BLOCK, at);

        if (n < 0 || m < 0)
            return (int)(n < 0 ? n : m);
        if (n != m || memcmp(x, y, (size_t)n) != 0)
            return 0;
        if (n < BLOCK)
            return 1;
    }
}

int apply_read_link(int root, const char *path, char **ret) {
    CLEANUP(closep) int fd = place_open(root, path, O_PATH | O_NOFOLLOW);
    char target[PATH_MAX];
    ssize_t n;

    if (fd < 0)
        return fd;
    n = readlinkat(fd, "", target, sizeof target);
    if (n < 0)
        return -errno;
    if ((size_t)n == sizeof target)
        return -ENAMETOOLONG;
    *ret = strndup(target, (size_t)n);
    return *ret ? 0 : -ENOMEM;
}

bool apply_same_link(int root, const char *path, const char *target) {
    CLEANUP(freep) char *now = NULL;

    return target && apply_read_link(root, path, &now) == 0 && str_eq(now, target);
}

bool apply_is_text(int fd) {
    char block[TEXT_LOOK];
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > APPLY_MERGE_MAX)
        return false;
    n = fd_pread_full(fd, block, sizeof block, 0);
    return n >= 0 && !memchr(block, 0, (size_t)n);
}

static size_t depth_of_folder(const char *path) {
    size_t n = 0;

    for (const char *p = path; *p; p++)
        n += *p == '/';
    return n;
}

/* ".." behind a name counts as out: the name may be, or become, a link to somewhere shallower ("x/.." with x -> "."). */
bool apply_link_leads_out(const char *path, const char *target) {
    size_t depth = depth_of_folder(path);
    bool named = false;

    if (*target == '/' || *target == 0)
        return true;
    for (const char *p = target; *p;) {
        size_t len = strcspn(p, "/");
        bool up = len == 2 && memcmp(p, "..", 2) == 0;

        if (up && (named || depth-- == 0))
            return true;
        named |= len && !up && !(len == 1 && *p == '.');
        p += len + (p[len] == '/');
    }
    return false;
}

bool apply_path_ok(const char *path) {
    if (strlen(path) >= JOURNAL_PATH_MAX)
        return false;
    for (const char *p = path;; p++) {
        size_t len = strcspn(p, "/");

        if (len == 0 || len > NAME_MAX || (len == 1 && *p == '.') || (len == 2 && memcmp(p, "..", 2) == 0))
            return false;
        p += len;
        if (*p == 0)
            return true;
    }
}

bool apply_same_xattrs(int fd, const char *block, size_t len) {
    CLEANUP(buf_done) struct buf now = BUF_INIT(2 * XATTRS_MAX);

    return xattrs_read(fd, &now) == 0 && now.len == len && (len == 0 || memcmp(now.data, block, len) == 0);
}
