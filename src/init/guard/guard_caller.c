/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what only the caller knows: its memory, its working folder (guard_path.c), its file mode mask, its terminal. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_place.h"
#include "os/fd.h"

enum { STATUS_MAX = 4096, STRING_PART = 256 /* most paths are shorter; divides a page */ };

/* The number of a thread that died may be another's by now: whatever was read is worth something only after this. */
bool caller_waits(const struct call *c) {
    uint64_t id = c->id;

    return ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* docker's filter refuses the call, and the same by a file is not refused. */
static ssize_t read_mem_file(pid_t tid, uint64_t address, void *to, size_t len) {
    char path[GUARD_PROC_PATH];
    CLEANUP(closep) int fd = -1;
    ssize_t n;

    if (address > INT64_MAX)
        return -EFAULT;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)tid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : pread(fd, to, len, (off_t)address);
    return n < 0 ? (errno == EIO ? -EFAULT : -errno) : n;
}

static ssize_t read_memory(pid_t tid, uint64_t address, void *to, size_t len) {
    struct iovec local = {.iov_base = to, .iov_len = len};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = len};
    ssize_t n = process_vm_readv(tid, &local, 1, &remote, 1, 0);

    if (n < 0 && (errno == EPERM || errno == ENOSYS))
        return read_mem_file(tid, address, to, len);
    return n < 0 ? -errno : n;
}

/* Not beyond a page, because the next one may not be there. */
int caller_string(const struct call *c, uint64_t address, char *to, size_t size) {
    for (size_t len = 0; len < size;) {
        ssize_t n = read_memory(c->tid, address + len, to + len,
                                MIN_OF(size - len, (size_t)(STRING_PART - (address + len) % STRING_PART)));
        const char *end = n > 0 ? memchr(to + len, 0, (size_t)n) : NULL;

        if (n <= 0)
            return n < 0 ? (int)n : -EFAULT;
        if (end)
            return (int)(end - to);
        len += (size_t)n;
    }
    return -ENAMETOOLONG;
}

int caller_path(const struct call *c, unsigned arg, char path[static PATH_MAX]) {
    int len = caller_string(c, c->arg[arg], path, PATH_MAX);

    if (len == 0)
        return -ENOENT;
    return len < 0 ? len : 0;
}

int caller_bytes(const struct call *c, uint64_t address, void *to, size_t len) {
    ssize_t n = len ? read_memory(c->tid, address, to, len) : 0;

    if (n < 0)
        return (int)n;
    return (size_t)n == len ? 0 : -EFAULT;
}

int caller_status(const struct call *c, const char *key, int base, long *ret) {
    char path[GUARD_PROC_PATH], text[STATUS_MAX];
    const char *at;
    char *end;
    ssize_t n;
    long value;

    snprintf(path, sizeof path, "/proc/%d/status", (int)c->tid);
    n = fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return (int)n;
    at = strstr(text, key); /* the name of the process, in the first line, has its line ends escaped */
    if (!at)
        return -ESRCH;
    value = strtol(at + strlen(key), &end, base);
    if (*end != '\n')
        return -ESRCH;
    *ret = value;
    return 0;
}

int caller_terminal(const struct call *c, unsigned *ret_major, unsigned *ret_minor) {
    char path[GUARD_PROC_PATH], text[1024];
    const char *at;
    int nr;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)c->tid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0)
        return -ENXIO;
    at = strrchr(text, ')');
    if (!at || sscanf(at + 2, "%*c %*d %*d %*d %d", &nr) != 1 || nr == 0)
        return -ENXIO;
    *ret_major = (unsigned)nr >> 8 & 0xfff;
    *ret_minor = ((unsigned)nr & 0xff) | ((unsigned)nr >> 12 & 0xfff00);
    return 0;
}

/* The last process number that was given out: if it did not change, no process was born. */
static long last_pid(void) {
    char text[128];
    const char *at;

    if (fd_read_file_at(AT_FDCWD, "/proc/loadavg", text, sizeof text) <= 0)
        return -1;
    at = strrchr(text, ' ');
    return at ? strtol(at, NULL, 10) : -1;
}

/*
 * The mask is inherited and nothing reports who has which, so another mask than the first means asking /proc at every call. git
 * and others, however, only set it and set it back to read it: if no process was born in between, all have the first one again.
 */
long guard_run_umask(struct call *c) {
    struct guard_umask *u = &c->g->umask_;
    mode_t mask = (mode_t)c->arg[0] & 0777;

    if (u->varies)
        return GUARD_CONTINUE;
    if (mask != u->start && u->away == 0) {
        u->last_pid = last_pid();
        u->away = c->tid;
    } else if (mask == u->start && u->away == c->tid && u->last_pid >= 0 && u->last_pid == last_pid()) {
        u->away = 0;
    } else if (mask != u->start || u->away != 0) {
        u->varies = true;
    }
    return GUARD_CONTINUE;
}

int caller_umask(const struct call *c) {
    struct guard_umask *u = &c->g->umask_;
    long mask = u->start;
    int r = u->varies || u->away ? caller_status(c, "\nUmask:\t", 8, &mask) : 0;

    if (r < 0)
        return r;
    if ((mode_t)mask != u->now)
        umask((mode_t)mask);
    u->now = (mode_t)mask;
    return 0;
}
