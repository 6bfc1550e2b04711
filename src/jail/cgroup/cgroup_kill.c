/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ending what is inside a group.
 *
 * Mustn't: hit a process that only inherited a number. A pid read from `cgroup.procs` can be another process a moment
 * later, so it is pinned with a pidfd first and then looked up again.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jail/cgroup/cgroup_priv.h"
#include "os/clock.h"
#include "os/fd.h"

enum {
    PATIENCE_MS = 10000, /* freeing many gigabytes, or on a slow disk, or with much else to do, it can take that long */
    BACKOFF_MIN_US = 30, /* an exit takes 50-200 µs */
    BACKOFF_MAX_US = 8000,
    PIDS_PER_PASS = 16 * 1024, /* bytes of cgroup.procs; the next pass gets the rest */
};

static bool is_member(long pid, const char *name) {
    char path[48], text[CGROUP_TEXT_MAX], want[CGROUP_NAME_MAX + 4];

    snprintf(path, sizeof path, "/proc/%ld/cgroup", pid);
    snprintf(want, sizeof want, "/%s\n", name);
    return fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, want);
}

static void kill_pinned(long pid, const char *name) {
    CLEANUP(closep) int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

    if (pidfd >= 0 && is_member(pid, name))
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/* 0 if there was no process, 1 if one was signalled. */
static int kill_pass(const struct cgroup_group *g) {
    char text[PIDS_PER_PASS + 1];
    CLEANUP(closep) int fd = openat(g->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -errno : fd_read_some(fd, text, PIDS_PER_PASS);
    const char *name = strrchr(g->path, '/') + 1;

    if (n <= 0)
        return (int)n;
    text[n] = 0;
    for (char *p = text, *end; *p; p = *end ? end + 1 : end) {
        long pid = strtol(p, &end, 10);

        if (pid > 1 && *end == '\n') /* a number cut off by the end of the buffer is not a pid */
            kill_pinned(pid, name);
        if (end == p)
            break;
    }
    return 1;
}

struct kill_wait {
    uint64_t end_ms; /* 0: not started */
    unsigned us;
};

/* Sleeps a little, each time longer; with events (cgroup.events) not longer than until the group is empty. */
static bool patience_wait(struct kill_wait *p, int events) {
    struct pollfd pfd = {.fd = events, .events = POLLPRI};
    char text[128];

    if (!p->end_ms)
        *p = (struct kill_wait){.end_ms = clock_ms() + PATIENCE_MS, .us = BACKOFF_MIN_US};
    else if (clock_ms() > p->end_ms)
        return false;
    /* poll() tells of changes after the last read of the same descriptor */
    if (events >= 0 && pread(events, text, sizeof text, 0) > 0 && strncmp(text, "populated 1", 11) == 0)
        poll(&pfd, 1, BACKOFF_MAX_US / 1000);
    else
        nanosleep(&(struct timespec){.tv_nsec = (long)p->us * 1000}, NULL);
    p->us = MIN_OF(p->us * 2, (unsigned)BACKOFF_MAX_US);
    return true;
}

/* Without cgroup.kill (v1, kernels before 5.14): fork is forbidden first, then one after the other is killed. */
static int kill_loop(const struct cgroup_group *g) {
    struct kill_wait patience = {0};
    int r;

    fd_write_file_at(g->dir, "pids.max", "0"); /* where it is missing the loop alone must win */
    do {
        r = kill_pass(g);
        if (r <= 0)
            return r;
    } while (patience_wait(&patience, -1));
    return -EBUSY;
}

static int group_kill(const struct cgroup_group *g) {
    int r = g->unified ? fd_write_file_at(g->dir, "cgroup.kill", "1") : -ENOENT;

    return r == -ENOENT ? kill_loop(g) : r;
}

/* rmdir says EBUSY until the last dying process has left; cgroup2 can tell when that is, v1 cannot. */
int cgroup_group_remove(const struct cgroup_group *g) {
    CLEANUP(closep) int events = -1;
    struct kill_wait patience = {0};

    if (rmdir(g->path) == 0 || errno == ENOENT)
        return 0;
    if (errno != EBUSY)
        return -errno;
    events = g->unified ? openat(g->dir, "cgroup.events", O_RDONLY | O_CLOEXEC) : -1;
    group_kill(g);
    while (rmdir(g->path) < 0 && errno != ENOENT) {
        if (errno != EBUSY)
            return -errno;
        if (!patience_wait(&patience, events))
            return -EBUSY;
    }
    return 0;
}
