/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind(2). Of all sockets, for what is bound is named by an address in the caller's memory, which could become another while the kernel
 * goes on with the call: the guard copies the address once, judges it, and binds a duplicate of the caller's socket itself.
 *
 * A unix socket is a name in a folder, as with mknod: git takes sockets called `objects` and `refs` for a repository's folders, and a
 * protected or hidden name is one whatever is behind it. The name is bound as the caller wrote it where no link was on the way,
 * because getsockname(2) shows it; else in the folder that was judged, and by its last part alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_run.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { PATH_OFFSET = offsetof(struct sockaddr_un, sun_path) };

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_un unix_;
        struct sockaddr_storage room;
    } u;
    socklen_t len;
};

static int read_address(const struct call *c, struct address *a) {
    int len = (int)c->arg[2];

    memset(a, 0, sizeof *a);
    if (len < 0 || (size_t)len > sizeof a->u.room)
        return -EINVAL;
    a->len = (socklen_t)len;
    return caller_bytes(c, c->arg[1], &a->u, (size_t)len);
}

/* Has it a name in a folder? Abstract names and "any name" have none. */
static bool is_path(const struct address *a) {
    return a->len > PATH_OFFSET && a->u.any.sa_family == AF_UNIX && a->u.unix_.sun_path[0] != 0;
}

static int duplicate_socket(const struct call *c) {
    CLEANUP(closep) int process = -1;
    long tgid;
    int fd, r = caller_status(c, "\nTgid:\t", 10, &tgid);

    if (r < 0)
        return r;
    process = (int)syscall(SYS_pidfd_open, (pid_t)tgid, 0);
    if (process < 0)
        return -errno;
    fd = (int)syscall(SYS_pidfd_getfd, process, (int)c->arg[0], 0);
    return fd < 0 ? -errno : fd;
}

/* Whether `path`, from the folder `base`, is the place that was judged, letter by letter. Then nothing but the host can make it another:
 * all links and renames of the inside are done by this thread. In /proc links change without a call. */
static bool is_written_so(const struct place *p, int base, const char *path) {
    char folder[PATH_MAX];
    size_t len;

    if (str_starts(p->path, "/proc/"))
        return false;
    if (path[0] == '/')
        return str_eq(path, p->path);
    if (place_path_of(base, folder) < 0)
        return false;
    len = strlen(folder);
    return str_starts(p->path, folder) && p->path[len] == '/' && str_eq(p->path + len + 1, path);
}

/* bind() knows no folder but the working one. */
static int bind_in(int folder, int sock, const struct sockaddr_un *address, socklen_t len) {
    CLEANUP(closep) int before = open(".", GUARD_OPEN_FOLDER);
    int r;

    if (before < 0 || fchdir(folder) < 0)
        return -errno;
    r = bind(sock, (const struct sockaddr *)address, len) < 0 ? -errno : 0;
    return fchdir(before) < 0 ? -errno : r;
}

static int bind_place(const struct call *c, const struct place *p, int sock, const struct address *a, const char *path) {
    CLEANUP(closep) int base = place_open_base(c, AT_FDCWD, path);
    struct sockaddr_un last = {.sun_family = AF_UNIX};
    size_t len = strlen(p->name);

    if (base >= 0 && is_written_so(p, base, path))
        return bind_in(base, sock, &a->u.unix_, a->len);
    if (len >= sizeof last.sun_path)
        return -ENAMETOOLONG;
    memcpy(last.sun_path, p->name, len + 1);
    return bind_in(p->dir, sock, &last, (socklen_t)(PATH_OFFSET + len + 1));
}

/* As for mknod(2), but for one answer. */
static int judge_name(const struct call *c, const struct place *p) {
    int r;

    if (p->exists || p->object >= 0)
        return -EADDRINUSE;
    if (strchr(p->name, '/'))
        return -ENOENT;
    r = judge_create(c->g, p, RULES_FILE);
    r = r < 0 ? r : guard_touch(c->g, p, false);
    return r < 0 ? r : caller_umask(c);
}

static int bind_path(const struct call *c, int sock, const struct address *a) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    char path[sizeof a->u.unix_.sun_path + 1];
    int r;

    if (a->len > sizeof a->u.unix_)
        return -EINVAL;
    snprintf(path, sizeof path, "%.*s", (int)(a->len - PATH_OFFSET), a->u.unix_.sun_path);
    r = place_find(c, AT_FDCWD, path, false, &p);
    if (r < 0 || !caller_waits(c))
        return r < 0 ? r : -ESRCH;
    r = judge_name(c, &p);
    return r < 0 ? r : bind_place(c, &p, sock, a, path);
}

long guard_run_bind(struct call *c) {
    CLEANUP(closep) int sock = duplicate_socket(c);

    return sock < 0 ? sock : guard_bind_socket(c, sock);
}

long guard_bind_socket(struct call *c, int sock) {
    struct address a;
    int r = read_address(c, &a);

    if (r < 0)
        return r;
    if (!caller_waits(c))
        return GUARD_ANSWERED;
    if (is_path(&a))
        return bind_path(c, sock, &a);
    return bind(sock, &a.u.any, a.len) < 0 ? -errno : 0;
}
