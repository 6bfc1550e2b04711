/* SPDX-License-Identifier: Apache-2.0 */
/* Contents that the journal stores, and entries made from the file system. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
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

static int copy_to_base(struct journal *j, int content, const char *name, uint64_t max, uint64_t *ret_size) {
    CLEANUP(closep) int fd = openat(j->base, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : copy_content(content, fd, max, ret_size);

    if (r < 0 && fd >= 0)
        unlinkat(j->base, name, 0);
    return r;
}

/* What a crash left before its record was written has the name. */
static int remove_leftover(struct journal *j, const char *name, int r) {
    return r == -EEXIST && unlinkat(j->base, name, 0) == 0;
}

static int keep_alone(struct journal *j, int content, const char *name, uint64_t max, struct journal_entry *e) {
    int r = copy_to_base(j, content, name, max, &e->size);

    return remove_leftover(j, name, r) ? copy_to_base(j, content, name, max, &e->size) : r;
}

static bool keep_linked(struct journal *j, const char *name, int host_dir, const struct stat *st, const struct journal_entry *e) {
    int r = link_file(j, e->path, host_dir, st, name);

    r = remove_leftover(j, name, r) ? link_file(j, e->path, host_dir, st, name) : r;
    return r == 0;
}

static int open_pack(struct journal *j) {
    if (j->pack < 0)
        j->pack = openat(j->base, JOURNAL_PACK, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (j->pack >= 0 && !j->packing)
        j->packing = malloc(JOURNAL_PACKED_MAX + 1);
    return j->pack < 0 ? -errno : j->packing ? 0 : -ENOMEM;
}

/* Small files go behind each other into one: making a file for each costs more than all the rest. 1: packed; 0: it does not fit. Space
 * that no record leads to is used again. */
static int pack_bytes(struct journal *j, const char *data, size_t n, uint64_t max, struct journal_entry *e) {
    if (n > JOURNAL_PACKED_MAX || n > max)
        return 0;
    if (n > 0 && pwrite(j->pack, data, n, (off_t)j->pack_end) != (ssize_t)n)
        return 0; /* no space, or the user's limit on the size of a file: it is tried alone, and that fails or not */
    e->size = n;
    e->blob = j->pack_end + 1;
    return 1;
}

static int keep_packed(struct journal *j, int content, uint64_t max, struct journal_entry *e) {
    int r = open_pack(j);
    ssize_t n;

    if (r < 0)
        return r;
    n = pread(content, j->packing, JOURNAL_PACKED_MAX + 1, 0);
    return n < 0 ? -errno : pack_bytes(j, j->packing, (size_t)n, max, e);
}

static uint64_t max_of(const struct journal *j) {
    return MIN_OF(j->opts.file_max, j->opts.budget - MIN_OF(j->opts.budget, j->stored_bytes));
}

int journal_keep_bytes(struct journal *j, const char *content, struct journal_entry *e, enum journal_form *ret_form) {
    CLEANUP(closep) int fd = -1;
    int r;

    if (j->opts.budget == 0 || e->size > max_of(j))
        return 0;
    r = open_base(j, true);
    r = r < 0 ? r : j->old ? 0 : open_pack(j);
    r = r < 0 ? r : j->old ? 0 : pack_bytes(j, content, e->size, max_of(j), e);
    if (r != 0) {
        *ret_form = r > 0 ? JOURNAL_PACKED : JOURNAL_COPIED;
        return MIN_OF(r, 0);
    }
    fd = journal_memory(content, e->size);
    r = fd < 0 ? fd : keep_alone(j, fd, name_of(j->last_blob + 1).s, max_of(j), e);
    e->blob = r < 0 ? 0 : j->last_blob + 1;
    return r;
}

int journal_keep(struct journal *j, int content, bool keep_inode, int host_dir, struct journal_entry *e,
                 enum journal_form *ret_form) {
    uint64_t max = max_of(j);
    struct blob_name name = name_of(j->last_blob + 1);
    struct stat st;
    int r;

    e->blob = 0;
    *ret_form = JOURNAL_COPIED;
    if (fstat(content, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || j->opts.budget == 0 || (uint64_t)st.st_size > max)
        return 0;
    r = open_base(j, true);
    if (r < 0)
        return r;
    e->size = (uint64_t)st.st_size;
    e->mtime_ns = mtime_of(&st);
    /* A file with another name can still be written to by that. */
    if (keep_inode && host_dir >= 0 && st.st_nlink == 1 && keep_linked(j, name.s, host_dir, &st, e)) {
        *ret_form = JOURNAL_LINKED;
        e->blob = j->last_blob + 1;
        return 0;
    }
    r = j->old || st.st_size > JOURNAL_PACKED_MAX ? 0 : keep_packed(j, content, max, e);
    if (r != 0) {
        *ret_form = r > 0 ? JOURNAL_PACKED : JOURNAL_COPIED;
        return MIN_OF(r, 0);
    }
    r = keep_alone(j, content, name.s, max, e);
    e->blob = r < 0 ? 0 : j->last_blob + 1;
    return r == -EFBIG ? 0 : r; /* it grew */
}

void journal_unkeep(struct journal *j, const struct journal_slot *s) {
    if (s->e.blob && s->form != JOURNAL_PACKED)
        unlinkat(j->base, name_of(s->e.blob).s, 0);
}

static int open_stored(const struct journal *j, const char *name) {
    CLEANUP(closep) int base = openat(j->dir, JOURNAL_BASE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1;
    struct stat st;

    fd = base < 0 ? -1 : openat(base, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -ENOENT;
}

void journal_open_pack(struct journal *j) {
    struct stat st;

    j->pack = open_stored(j, JOURNAL_PACK);
    if (j->pack < 0 || fstat(j->pack, &st) < 0)
        j->pack = -1;
    else
        j->pack_size = (uint64_t)st.st_size;
}

/* Readers want a file that begins and ends with the content. */
int journal_memory(const char *data, size_t len) {
    CLEANUP(closep) int fd = memfd_create("content", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);

    if (r < 0)
        return r;
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : TAKE_FD(fd);
}

/* The content of a packed file. */
static int read_packed(const struct journal *j, const struct journal_entry *e, char **ret) {
    CLEANUP(closep) int own = j->pack < 0 ? open_stored(j, JOURNAL_PACK) : -1;
    int pack = j->pack < 0 ? own : j->pack;
    CLEANUP(freep) char *data = NULL;
    ssize_t n;

    if (pack < 0 || e->size > JOURNAL_PACKED_MAX)
        return pack < 0 ? pack : -ENOENT;
    data = malloc(e->size + 1);
    if (!data)
        return -ENOMEM;
    n = pread(pack, data, e->size, (off_t)e->blob - 1);
    if (n != (ssize_t)e->size)
        return n < 0 ? -errno : -ENOENT;
    *ret = TAKE_PTR(data);
    return 0;
}

static int unpack(const struct journal *j, const struct journal_entry *e) {
    CLEANUP(freep) char *data = NULL;
    int r = read_packed(j, e, &data);

    return r < 0 ? r : journal_memory(data, e->size);
}

int journal_same(const struct journal *j, const struct journal_entry *e, int fd) {
    const struct journal_slot *s = e->blob ? journal_lookup(j, e->path, journal_hash(j, e->path)) : NULL;
    CLEANUP(freep) char *now = NULL;
    CLEANUP(freep) char *then = NULL;
    struct stat st;
    ssize_t n;

    if (!s || s->form != JOURNAL_PACKED)
        return -EAGAIN;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size != e->size)
        return 0;
    now = malloc(e->size + 1);
    if (!now || read_packed(j, e, &then) < 0)
        return -EAGAIN;
    n = pread(fd, now, e->size, 0);
    if (n < 0)
        return -errno;
    return (uint64_t)n == e->size && memcmp(now, then, e->size) == 0;
}

bool journal_has(const struct journal *j, const struct journal_entry *e) {
    const struct journal_slot *s = e->blob ? journal_lookup(j, e->path, journal_hash(j, e->path)) : NULL;
    CLEANUP(closep) int fd = -1;

    if (s && s->form == JOURNAL_PACKED && !j->write)
        return j->pack >= 0 && e->size <= JOURNAL_PACKED_MAX && e->blob - 1 <= j->pack_size &&
               e->size <= j->pack_size - (e->blob - 1);
    fd = journal_blob(j, e);
    return fd >= 0;
}

int journal_blob(const struct journal *j, const struct journal_entry *e) {
    CLEANUP(closep) int fd = -1;
    const struct journal_slot *s;
    struct stat st;

    if (!e->blob)
        return -ENOENT;
    s = journal_lookup(j, e->path, journal_hash(j, e->path)); /* by path: e may be the caller's copy */
    if (s && s->form == JOURNAL_PACKED)
        return unpack(j, e);
    if (s && s->form == JOURNAL_SPOOLED)
        return journal_memory(j->spool.data + s->e.blob - 1, s->e.size);
    fd = open_stored(j, name_of(e->blob).s);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    if ((uint64_t)st.st_size != e->size || (s && s->form == JOURNAL_LINKED && mtime_of(&st) != e->mtime_ns))
        return -ENOENT; /* not what was stored any more */
    return TAKE_FD(fd);
}

/* -- what is at a path now ------------------------------------------------------------------------------------------------ */

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

/* Unreadable files are recorded by name only. */
static int look_inside(struct journal *j, int fd, struct journal_entry *e, int *ret_content) {
    CLEANUP(closep) int opened = -1;
    char self[40];
    int r;

    /* By the magic link of a descriptor: exactly the file that was looked at, never a FIFO or a device. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    opened = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (e->kind == JOURNAL_DIR ? O_DIRECTORY : 0));
    if (opened < 0)
        return errno == EACCES || errno == EPERM ? 0 : -errno;
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

static int look_at_fd(struct journal *j, int fd, struct journal_entry *e, int *ret_content) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    e->kind = S_ISREG(st.st_mode)   ? JOURNAL_FILE
              : S_ISDIR(st.st_mode) ? JOURNAL_DIR
              : S_ISLNK(st.st_mode) ? JOURNAL_LINK
                                    : JOURNAL_OTHER;
    e->mode = st.st_mode & 07777;
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    switch (e->kind) {
    case JOURNAL_FILE:
        e->size = (uint64_t)st.st_size;
        e->mtime_ns = mtime_of(&st);
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
    r = fd < 0 ? 0 : look_at_fd(j, fd, &e, &content);
    if (r < 0 || !buf_ok(&j->path))
        return err_sys(err, r < 0 ? r : -ENOMEM, "look at '%s'", path);
    e.path = buf_str(&j->path);
    *ret = e;
    if (ret_content)
        *ret_content = TAKE_FD(content);
    return 0;
}
