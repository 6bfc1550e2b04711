/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unix sockets where there are no mounts that hide the host's. Landlock does not ask about connect() to a path, so the guard does: the socket must
 * have been bound inside, which is known by file system, inode and birth, or be one that the start message names. What is judged is an open
 * descriptor of it, and that is what is connected to.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "init/guard/guard_run.h"
#include "init/guard/guard_sock.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "proto/initmsg.h"

enum { PATH_OFFSET = offsetof(struct sockaddr_un, sun_path) };

static int identify(int fd, struct sock_bound *ret) {
    struct stat st;
    uint64_t birth_ns;
    int r = stat_born(fd, "", AT_EMPTY_PATH, &st, &birth_ns);

    if (r < 0)
        return r;
    if (!S_ISSOCK(st.st_mode))
        return -ECONNREFUSED;
    *ret = (struct sock_bound){.dev = st.st_dev, .ino = st.st_ino, .birth_ns = birth_ns};
    return 0;
}

static bool was_bound_inside(const struct guard_socks *k, const struct sock_bound *b) {
    size_t n = MIN_OF(k->n_bound, (size_t)SOCKS_BOUND);

    for (size_t i = 0; i < n; i++)
        if (k->bound[i].dev == b->dev && k->bound[i].ino == b->ino && k->bound[i].birth_ns == b->birth_ns)
            return true;
    return false;
}

static bool is_named_by_start(const struct guard *g, int fd) {
    const struct init_start *s = g->start;
    char path[PATH_MAX];

    if (place_path_of(fd, path) < 0)
        return false;
    for (size_t i = 0; i < s->n_rules; i++)
        if (s->rules[i].access == INIT_ACCESS_SOCKET && str_eq(s->rules[i].path, path))
            return true;
    return false;
}

/* Root's folders are closed to the owner of the workspace: there the path is only a name for what was handed in. -1: none. */
static int handed_in(const struct guard *g, const char *path) {
    const struct init_start *s = g->start;
    size_t n = 0;

    for (size_t i = 0; i < s->n_rules && n < ARRAY_LEN(g->socks->named); i++)
        if (s->rules[i].access == INIT_ACCESS_SOCKET) {
            if (g->socks->named[n] >= 0 && str_eq(s->rules[i].path, path))
                return fcntl(g->socks->named[n], F_DUPFD_CLOEXEC, 0);
            n++;
        }
    return -1;
}

/* "" for a name that is not in a folder. */
static int read_path(const struct sock_address *a, char path[static sizeof a->u.un.sun_path + 1]) {
    if (a->u.any.sa_family != AF_UNIX || a->len > sizeof a->u.un)
        return -EINVAL;
    snprintf(path, sizeof a->u.un.sun_path + 1, "%.*s", a->len > PATH_OFFSET ? (int)(a->len - PATH_OFFSET) : 0, a->u.un.sun_path);
    return 0;
}

/* Our working folder becomes the caller's; *ret_before: ours. */
static int go_there(const struct call *c, int *ret_before) {
    char link[GUARD_PROC_PATH];
    CLEANUP(closep) int there = -1;

    *ret_before = open(".", GUARD_OPEN_FOLDER);
    snprintf(link, sizeof link, "/proc/%d/cwd", (int)c->tid);
    there = open(link, GUARD_OPEN_FOLDER);
    if (*ret_before < 0 || there < 0)
        return -errno;
    if (!caller_waits(c))
        return -ESRCH;
    return fchdir(there) < 0 ? -errno : 0;
}

static void go_back(int before) {
    if (before >= 0)
        (void)!fchdir(before);
}

/* "self" would be us. */
static bool leads_to_ourselves(const char *path) {
    return strstr(path, "proc/self") || strstr(path, "proc/thread-self") || str_starts(path, "/dev/fd") ||
           str_starts(path, "self/");
}

static int open_target(const struct call *c, const char *path) {
    CLEANUP(closep) int before = -1;
    int fd, r = leads_to_ourselves(path) ? -EACCES : go_there(c, &before);

    if (r < 0)
        return r;
    fd = open(path, O_PATH | O_CLOEXEC);
    r = fd < 0 ? -errno : fd;
    go_back(before);
    return r;
}

static int connect_path(const struct call *c, int sock, const char *path) {
    int given = handed_in(c->g, path);
    CLEANUP(closep) int target = given >= 0 ? given : open_target(c, path);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct sock_bound b;
    int flags, r = target < 0 ? target : identify(target, &b);

    if (r < 0)
        return r;
    if (given < 0 && !was_bound_inside(c->g->socks, &b) && !is_named_by_start(c->g, target))
        return -EACCES;
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d", target);
    flags = fcntl(sock, F_GETFL);
    if (flags < 0 || fcntl(sock, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    r = connect(sock, (const struct sockaddr *)&a, sizeof a) < 0 ? -errno : 0;
    fcntl(sock, F_SETFL, flags);
    return r == -EAGAIN && !(flags & O_NONBLOCK) ? GUARD_LATER : r;
}

long sock_unix_connect(struct call *c, struct sock_dup *s, const struct sock_address *a) {
    char path[sizeof a->u.un.sun_path + 1];
    int r = read_path(a, path);

    if (r < 0)
        return r;
    r = *path ? connect_path(c, s->fd, path) : -EACCES; /* abstract names are the host's */
    if (r == GUARD_LATER && (c->g->n_later == GUARD_LATER_MAX || c->g->waited_ms >= GUARD_PATIENCE_MS))
        return -EAGAIN;
    if (r == 0)
        socks_drop(c->g->socks, s);
    return r;
}

static int bind_path(const struct call *c, int sock, const struct sock_address *a, const char *path) {
    CLEANUP(closep) int before = -1;
    int r = leads_to_ourselves(path) ? -EACCES : caller_umask(c);

    r = r < 0 ? r : go_there(c, &before);
    if (r < 0)
        return r;
    r = bind(sock, &a->u.any, a->len) < 0 ? -errno : 0;
    go_back(before);
    return r;
}

/* What is there now may be another's already, moved there from inside, and one of the host's: but not one that was born since. Where births
 * are not known none is remembered, and none can be reached. */
static void remember(const struct call *c, const char *path, uint64_t before_ns) {
    CLEANUP(closep) int fd = open_target(c, path);
    struct guard_socks *k = c->g->socks;
    struct sock_bound b;

    if (fd >= 0 && identify(fd, &b) == 0 && b.birth_ns >= before_ns)
        k->bound[k->n_bound++ % SOCKS_BOUND] = b;
}

long sock_unix_bind(struct call *c, struct sock_dup *s, const struct sock_address *a) {
    char path[sizeof a->u.un.sun_path + 1];
    uint64_t before_ns = guard_clock_ns(CLOCK_REALTIME_COARSE); /* as files are stamped */
    long r = read_path(a, path);

    if (r < 0)
        return r;
    if (!*path)
        return -EACCES;
    r = c->g->files ? guard_bind_socket(c, s->fd) : bind_path(c, s->fd, a, path);
    if (r == 0)
        remember(c, path, before_ns);
    return r;
}
