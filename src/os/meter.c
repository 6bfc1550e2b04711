/* SPDX-License-Identifier: Apache-2.0 */
/* A shared count in a file. */
#include "os/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/fd.h"

int meter_read(int fd, struct shared_meter *ret) {
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    n = pread(fd, ret, sizeof *ret, 0);
    if (n < 0)
        return -errno;
    return n == (ssize_t)sizeof *ret && memcmp(ret->magic, METER_MAGIC, sizeof ret->magic) == 0 ? 0 : -EBADMSG;
}

static int write_at(int fd, size_t at, uint64_t value) {
    ssize_t n = pwrite(fd, &value, sizeof value, (off_t)at);

    return n == (ssize_t)sizeof value ? 0 : n < 0 ? -errno : -EIO;
}

int meter_set_limit(int fd, uint64_t limit) {
    return write_at(fd, offsetof(struct shared_meter, limit), limit);
}

int meter_set_seen(int fd, uint64_t seen) {
    return write_at(fd, offsetof(struct shared_meter, seen), seen);
}

/* Nothing may leave before the owner has said how much. */
static int fill(int fd) {
    struct shared_meter m = {.limit = 0};
    ssize_t n;

    memcpy(m.magic, METER_MAGIC, sizeof m.magic);
    n = pwrite(fd, &m, sizeof m, 0);
    return n == (ssize_t)sizeof m ? 0 : n < 0 ? -errno : -EIO;
}

int meter_make(int dir, const char *name, uid_t user) {
    CLEANUP(closep) int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct shared_meter m;
    int r;

    if (fd < 0)
        return -errno;
    r = meter_read(fd, &m);
    r = r == -EBADMSG ? fill(fd) : r;
    if (r == 0 && user != geteuid() && fchown(fd, user, user) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(fd);
}

int meter_open(const char *path) {
    CLEANUP(closep) int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct shared_meter m;
    int r = fd < 0 ? -errno : meter_read(fd, &m);

    return r < 0 ? r : TAKE_FD(fd);
}

int meter_map(int fd, struct shared_meter **ret) {
    struct shared_meter m;
    int r = meter_read(fd, &m);
    void *at;

    if (r < 0)
        return r;
    at = mmap(NULL, sizeof m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    *ret = at;
    return 0;
}

bool meter_add(struct shared_meter *m, uint64_t n) {
    __atomic_fetch_add(&m->used, n, __ATOMIC_RELAXED);
    return meter_over(m);
}

/* As much as the limit may be used: what is past it is too much, and where nothing is left nothing begins. */
bool meter_over(const struct shared_meter *m) {
    return __atomic_load_n(&m->used, __ATOMIC_RELAXED) >= __atomic_load_n(&m->limit, __ATOMIC_RELAXED);
}
