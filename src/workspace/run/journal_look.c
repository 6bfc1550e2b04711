/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/run/journal_priv.h"

static enum journal_kind kind_of(mode_t mode) {
    if (S_ISREG(mode))
        return JOURNAL_FILE;
    if (S_ISDIR(mode))
        return JOURNAL_DIR;
    return S_ISLNK(mode) ? JOURNAL_LINK : JOURNAL_OTHER;
}

/* By the magic link of a descriptor, so that it is the very file that was looked at, and never a FIFO or a device. */
static int reopen(int fd, int flags) {
    char self[40];
    int opened;

    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    opened = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    return opened < 0 ? -errno : opened;
}

static int look_at_link(struct journal *j, int fd, struct journal_entry *e) {
    char to[PATH_MAX];
    ssize_t n = readlinkat(fd, "", to, sizeof to);

    if (n < 0)
        return -errno;
    if (n == 0 || n == (ssize_t)sizeof to)
        return -ENAMETOOLONG;
    buf_clear(&j->link);
    buf_add(&j->link, to, (size_t)n);
    e->link = buf_str(&j->link);
    return buf_ok(&j->link) ? 0 : -ENOMEM;
}

/* What may not be read, its owner did not let be read: that it is there is recorded. */
static int look_inside(struct journal *j, int fd, struct journal_entry *e, int *ret_content) {
    CLEANUP(closep) int opened = reopen(fd, e->kind == JOURNAL_DIR ? O_DIRECTORY : 0);
    int r;

    if (opened < 0)
        return opened == -EACCES || opened == -EPERM ? 0 : opened;
    buf_clear(&j->xattrs);
    r = xattrs_read(opened, &j->xattrs);
    if (r < 0 && r != -EACCES && r != -EPERM)
        return r;
    e->xattrs_len = j->xattrs.len;
    e->xattrs = e->xattrs_len ? buf_str(&j->xattrs) : NULL;
    if (ret_content && e->kind == JOURNAL_FILE)
        *ret_content = TAKE_FD(opened);
    return 0;
}

static int look(struct journal *j, int fd, struct journal_entry *e, int *ret_content) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    e->kind = kind_of(st.st_mode);
    e->mode = st.st_mode & 07777;
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    switch (e->kind) {
    case JOURNAL_FILE:
        e->size = (uint64_t)st.st_size;
        e->mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
        return look_inside(j, fd, e, ret_content);
    case JOURNAL_DIR:
        return look_inside(j, fd, e, NULL);
    case JOURNAL_LINK:
        return look_at_link(j, fd, e);
    case JOURNAL_OTHER:
    case JOURNAL_ABSENT:
        break;
    }
    return 0;
}

int journal_look(struct journal *j, int root, const char *path, struct journal_entry *ret, int *ret_content, struct err *err) {
    struct journal_entry e = {.kind = JOURNAL_ABSENT};
    CLEANUP(closep) int fd = -1, content = -1;
    int r = 0;

    if (!journal_is_path(path, strlen(path)))
        return err_set(err, -EINVAL, "'%s' is no path below the workspace", path);
    buf_clear(&j->path);
    buf_adds(&j->path, path);
    fd = safepath_open(root, buf_str(&j->path), O_PATH);
    /* Something else on the way, a link too: there is nothing of this name in the tree. */
    if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
        return err_sys(err, fd, "look at '%s'", path);
    r = fd < 0 ? 0 : look(j, fd, &e, &content);
    if (r < 0 || !buf_ok(&j->path))
        return err_sys(err, r < 0 ? r : -ENOMEM, "look at '%s'", path);
    e.path = buf_str(&j->path);
    *ret = e;
    if (ret_content)
        *ret_content = TAKE_FD(content);
    return 0;
}
