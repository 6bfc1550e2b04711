/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/copy.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "workspace/run/journal_priv.h"

struct blob_name {
    char s[24];
};

static struct blob_name name_of(uint64_t blob) {
    struct blob_name n;

    snprintf(n.s, sizeof n.s, "%" PRIu64, blob);
    return n;
}

static uint64_t mtime_of(const struct stat *st) {
    return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

static int open_base(struct journal *j, bool make) {
    if (j->base >= 0)
        return 0;
    if (make && mkdirat(j->dir, JOURNAL_BASE, 0700) < 0 && errno != EEXIST)
        return -errno;
    j->base = openat(j->dir, JOURNAL_BASE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return j->base < 0 ? -errno : 0;
}

/* The path must lead to the very file that `content` is: between the two the sandbox may have put another in its place. */
static int link_file(struct journal *j, const char *path, int host_dir, const struct stat *content, const char *name) {
    CLEANUP(closep) int fd = safepath_open(host_dir, path, O_PATH);
    char self[40];
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    if (st.st_dev != content->st_dev || st.st_ino != content->st_ino)
        return -ESTALE;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, self, j->base, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int copy_file(struct journal *j, int content, const char *name, uint64_t max, uint64_t *ret_size) {
    CLEANUP(closep) int fd = openat(j->base, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : copy_content(content, fd, max, ret_size);

    if (r < 0 && fd >= 0)
        unlinkat(j->base, name, 0);
    return r;
}

int journal_keep(struct journal *j, int content, bool keep_inode, int host_dir, struct journal_entry *e, bool *ret_linked) {
    uint64_t max = MIN_OF(j->opts.file_max, j->opts.budget - MIN_OF(j->opts.budget, j->kept));
    struct blob_name name = name_of(j->last_blob + 1);
    bool linked;
    struct stat st;
    int r;

    e->blob = 0;
    *ret_linked = false;
    if (fstat(content, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || j->opts.budget == 0 || (uint64_t)st.st_size > max)
        return 0;
    r = open_base(j, true);
    if (r < 0)
        return r;
    unlinkat(j->base, name.s, 0); /* a crash left it before its record was written */
    e->size = (uint64_t)st.st_size;
    e->mtime_ns = mtime_of(&st);
    /* A file with another name can still be written to by that. */
    linked = keep_inode && host_dir >= 0 && st.st_nlink == 1 && link_file(j, e->path, host_dir, &st, name.s) == 0;
    r = linked ? 0 : copy_file(j, content, name.s, max, &e->size);
    if (r < 0)
        return r == -EFBIG ? 0 : r; /* it grew */
    e->blob = j->last_blob + 1;
    *ret_linked = linked;
    return 0;
}

void journal_unkeep(struct journal *j, uint64_t blob) {
    if (blob)
        unlinkat(j->base, name_of(blob).s, 0);
}

/* Asked by path: e may be the caller's copy. */
static bool is_linked(const struct journal *j, const struct journal_entry *e) {
    const struct journal_slot *s = journal_lookup(j, e->path, journal_hash(j, e->path));

    return s && s->linked;
}

int journal_blob(const struct journal *j, const struct journal_entry *e) {
    CLEANUP(closep) int base = -1, fd = -1;
    struct stat st;

    if (!e->blob)
        return -ENOENT;
    base = openat(j->dir, JOURNAL_BASE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    fd = base < 0 ? -1 : openat(base, name_of(e->blob).s, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != e->size || (is_linked(j, e) && mtime_of(&st) != e->mtime_ns))
        return -ENOENT; /* not what was kept any more */
    return TAKE_FD(fd);
}
