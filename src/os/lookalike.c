/* SPDX-License-Identifier: Apache-2.0 */
/* Makes files that only look like others. */
#include "os/lookalike.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"

void lookalikes_done(struct lookalikes *p) {
    for (size_t i = 0; i < p->n; i++)
        free(p->v[i].path);
    free(p->v);
    *p = (struct lookalikes){0};
}

/* In a tree of the inside's, or by an index that contradicts itself: then git may say what it likes. */
static bool is_in_the_way(int r) {
    return r == -ENOTDIR || r == -ELOOP || r == -ENAMETOOLONG;
}

/* The first that does not sort before the path followed by `last`. */
static size_t lower_bound(const struct lookalikes *p, const char *path, const char *last) {
    size_t from = 0, to = p->n, len = strlen(path);

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        int order = strncmp(p->v[mid].path, path, len);

        if (order < 0 || (order == 0 && strcmp(p->v[mid].path + len, last) < 0))
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

struct lookalike_range lookalikes_below(const struct lookalikes *p, const char *path) {
    size_t len = strlen(path), at = lower_bound(p, path, ""), n = 0;

    if (at < p->n && str_eq(p->v[at].path, path))
        return (struct lookalike_range){&p->v[at], 1};
    at = lower_bound(p, path, "/");
    while (at + n < p->n && strncmp(p->v[at + n].path, path, len) == 0 && p->v[at + n].path[len] == '/')
        n++;
    return n ? (struct lookalike_range){p->v + at, n} : (struct lookalike_range){0};
}

static int make_file(int dir, const char *name, const struct lookalike *p) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    const struct timespec times[2] = {p->mtime, p->mtime};
    struct stat st;

    if (fd < 0)
        return errno == EEXIST ? 0 : -errno;
    if (fstat(dir, &st) < 0 || (st.st_uid != geteuid() && fchown(fd, st.st_uid, st.st_gid) < 0))
        return -errno;
    return ftruncate(fd, p->size) < 0 || fchmod(fd, p->executable ? S_IXUSR : 0) < 0 || futimens(fd, times) < 0 ? -errno : 0;
}

static int enter_dir(int dir, const char *name) {
    int fd;

    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int make_below(int top, const char *path, const struct lookalike *p) {
    CLEANUP(closep) int dir = -1;
    char name[NAME_MAX + 1];
    const char *slash;

    for (; (slash = strchr(path, '/')); path = slash + 1) {
        int next;

        if (slash == path || slash - path > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, path, (size_t)(slash - path));
        name[slash - path] = 0;
        next = enter_dir(dir < 0 ? top : dir, name);
        closep(&dir);
        if (next < 0)
            return next;
        dir = next;
    }
    return make_file(dir < 0 ? top : dir, path, p);
}

int lookalikes_make(struct lookalike_range range, size_t skip, int dir) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < range.n; i++) {
        r = make_below(dir, range.v[i].path + skip, &range.v[i]);
        r = is_in_the_way(r) ? 0 : r;
    }
    return r;
}
