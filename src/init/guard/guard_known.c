/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files were made or opened for writing inside. The guard needs it to tell its own files from those that the host is just saving; the supervisor, for what
 * lands in a protected place (proto/guardmsg.h: struct guard_share). Both ask for the file, not for its name.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "proto/initmsg.h"

static const uint64_t SECOND_NS = 1000000000;

uint64_t time_ns(const struct timespec *t) {
    return (uint64_t)t->tv_sec * SECOND_NS + (uint64_t)t->tv_nsec;
}

/* linux/stat.h's struct statx: Debian 12's musl has none, and that header does not go with its own. */
struct born_time {
    int64_t sec;
    uint32_t nsec;
    int32_t unused;
};
struct born_stat {
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, unused;
    uint64_t ino, size, blocks, attributes_mask;
    struct born_time atime, btime, ctime, mtime;
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
    uint64_t mount, unused2[13];
};
static_assert(sizeof(struct born_stat) == 256, "as the kernel has it");
enum { BORN_BASIC = 0x7ff, BORN_BTIME = 0x800, BORN_MOUNT = 0x1000 };

/* As fstatat(2), which does not know when a file was born. birth_ns 0: the file system does not, either. */
int stat_born(int dir, const char *name, int flags, struct stat *ret, uint64_t *ret_birth_ns) {
    struct born_stat x;

    if (syscall(SYS_statx, dir, name, flags | AT_NO_AUTOMOUNT, BORN_BASIC | BORN_BTIME, &x) < 0)
        return -errno;
    *ret = (struct stat){.st_dev = makedev(x.dev_major, x.dev_minor),
                         .st_ino = x.ino,
                         .st_mode = x.mode,
                         .st_nlink = x.nlink,
                         .st_uid = x.uid,
                         .st_gid = x.gid,
                         .st_rdev = makedev(x.rdev_major, x.rdev_minor),
                         .st_size = (off_t)x.size,
                         .st_mtim = {.tv_sec = x.mtime.sec, .tv_nsec = x.mtime.nsec},
                         .st_ctim = {.tv_sec = x.ctime.sec, .tv_nsec = x.ctime.nsec}};
    *ret_birth_ns = x.mask & BORN_BTIME ? (uint64_t)x.btime.sec * SECOND_NS + x.btime.nsec : 0;
    return 0;
}

int stat_mount(const char *path, dev_t *ret_dev, uint64_t *ret_mount) {
    struct born_stat x;

    if (syscall(SYS_statx, AT_FDCWD, path, AT_NO_AUTOMOUNT, BORN_BASIC | BORN_MOUNT, &x) < 0)
        return -errno;
    *ret_dev = makedev(x.dev_major, x.dev_minor);
    *ret_mount = x.mask & BORN_MOUNT ? x.mount : 0;
    return 0;
}

/* A user's limit on the size of files holds for this memory, too: then it has room for fewer. */
static size_t size_of_share(void) {
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur >= sizeof(struct guard_share))
        return sizeof(struct guard_share);
    return (size_t)limit.rlim_cur;
}

/* Made here and sent to the supervisor before the first file is opened: a run that changes nothing pays nothing. Its size is sealed, so that nothing that
 * happens here can end the supervisor by a fault. Pages that are never written are never there. */
int known_init(struct guard *g) {
    size_t size = size_of_share();
    CLEANUP(closep) int fd = memfd_create("guard", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stat st;
    void *at;

    if (fd < 0 || fstat(g->root, &st) < 0)
        return -errno;
    if (size <= offsetof(struct guard_share, written))
        return -EFBIG;
    if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    g->share = at;
    g->share_room = (size - offsetof(struct guard_share, written)) / sizeof g->share->written[0];
    g->share->turn = 1; /* we are at work on the first call */
    g->root_dev = st.st_dev;
    return guard_send_share(g, fd);
}

bool known_has(const struct guard *g, const struct stat *st, uint64_t birth_ns) {
    return seen_has_hash(&g->known, guardmsg_key(st->st_dev, st->st_ino, birth_ns));
}

/* hosts: a program of the host made it while we ran. Other file systems than the workspace's do not matter: nothing can be renamed from there. */
void known_add(struct guard *g, const struct stat *st, uint64_t birth_ns, bool hosts) {
    uint64_t key = guardmsg_key(st->st_dev, st->st_ino, birth_ns), n = g->share->n_written;

    if (!S_ISREG(st->st_mode) || st->st_dev != g->root_dev || !seen_add_hash(&g->known, key))
        return;
    if (n >= g->share_room) {
        g->share->full = 1;
        return;
    }
    g->share->written[n] = key | (hosts ? GUARD_KEY_HOSTS : 0);
    g->share->n_written = n + 1;
}

/* What the supervisor found to be protected meanwhile. */
int known_read_links(struct guard *g) {
    uint32_t len = g->share->links_len;
    const char *end = g->share->links + len;

    if (len > GUARD_LINKS_BYTES)
        return -EIO;
    while (g->links_read < len) {
        const char *place = g->share->links + g->links_read, *link = memchr(place, 0, (size_t)(end - place));
        const char *stop = link ? memchr(link + 1, 0, (size_t)(end - link - 1)) : NULL;
        int r = stop ? guard_rules_add_link(&g->rules, place, link + 1) : -EIO;

        if (r < 0)
            return r;
        g->links_read = (uint32_t)(stop + 1 - g->share->links);
    }
    return 0;
}
