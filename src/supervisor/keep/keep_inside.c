/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs inside, looked at from the host: by the control group, which holds everything that descends from bawn-init, or, where
 * there is none, by walking down from bawn-init. Names and command lines are the inside's own words.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/vec.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "supervisor/keep/keep_priv.h"

enum { PIDS_MAX = 4096, CMDLINE_MAX = 512, TEXT_MAX = 4096, LIST_MAX = 64 * 1024, DYING_MS = 50 };
/* The client waits for ten seconds at most (control_client.c). */
enum { FREEZE_MS = 5000, STUCK_NAPS = 20, PATIENCE_MIN = 8, PATIENCE_MAX = 512 };

static size_t add_pids(const char *text, pid_t init, pid_t *ret, size_t n, size_t max) {
    char *end;

    for (long pid; n < max && (pid = strtol(text, &end, 10)) > 0 && end != text; text = end)
        if (pid != init)
            ret[n++] = (pid_t)pid;
    return n;
}

/* Children of every thread of a process. */
static size_t add_children(pid_t pid, pid_t init, pid_t *ret, size_t n, size_t max) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    char path[80], text[TEXT_MAX];
    const struct dirent *e;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    dir_open_at(AT_FDCWD, path, &d);
    while (n < max && (e = dir_next(&d))) {
        snprintf(path, sizeof path, "%.16s/children", e->d_name);
        if (fd_read_file_at(d.fd, path, text, sizeof text) > 0)
            n = add_pids(text, init, ret, n, max);
    }
    return n;
}

size_t inside_pids(const struct keeper *k, pid_t *ret, size_t max) {
    const struct sandbox *sb = &k->session.sandbox;
    CLEANUP(freep) char *text = sb->cgroup.n ? malloc(LIST_MAX) : NULL;
    size_t n = 0;

    if (sb->cgroup.n) {
        bool is_read = text && fd_read_file_at(sb->cgroup.groups[0].dir, "cgroup.procs", text, LIST_MAX) > 0;

        return is_read ? add_pids(text, sb->pid, ret, 0, max) : 0;
    }
    n = add_children(sb->pid, sb->pid, ret, 0, max);
    for (size_t i = 0; i < n; i++)
        n = add_children(ret[i], sb->pid, ret, n, max);
    return n;
}

/* For people ------------------------------------------------------------------------------------------------------- */

static long inner_pid(pid_t pid) {
    char path[40], text[TEXT_MAX];
    const char *p, *last;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0 || !(p = strstr(text, "\nNSpid:")))
        return 0;
    p += strlen("\nNSpid:");
    for (last = p; *p && *p != '\n'; p++)
        last = *p == '\t' ? p : last;
    return strtol(last, NULL, 10);
}

static void add_command(pid_t pid, struct buf *out) {
    char path[40], text[CMDLINE_MAX + 1];
    CLEANUP(closep) int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : fd_read_some(fd, text, CMDLINE_MAX);
    if (n <= 0) { /* a zombie */
        snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
        n = fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    }
    n = MAX_OF(n, 0);
    while (n > 0 && (text[n - 1] == 0 || text[n - 1] == '\n'))
        n--;
    for (ssize_t i = 0; i < n; i++)
        text[i] = text[i] ? text[i] : ' ';
    text[n] = 0;
    buf_add_json(out, text);
}

void inside_json(const struct keeper *k, struct buf *out) {
    CLEANUP(freep) pid_t *pids = calloc(PIDS_MAX, sizeof *pids);
    size_t n = pids && !k->session.sandbox.bytes ? inside_pids(k, pids, PIDS_MAX) : 0; /* else they are the engine's */

    buf_addc(out, '[');
    for (size_t i = 0; i < n; i++) {
        buf_addf(out, "%s{\"pid\":%d,\"inside\":%ld,\"command\":", i ? "," : "", (int)pids[i], inner_pid(pids[i]));
        add_command(pids[i], out);
        buf_addc(out, '}');
    }
    buf_addc(out, ']');
}

/* Freezing --------------------------------------------------------------------------------------------------------- */

static int freezer(const struct keeper *k) {
    const struct cgroup *cg = &k->session.sandbox.cgroup;

    for (unsigned i = 0; i < cg->n; i++)
        if (cg->groups[i].unified && faccessat(cg->groups[i].dir, "cgroup.freeze", W_OK, 0) == 0)
            return cg->groups[i].dir;
    return -1;
}

/* A process that waits for our answer, because it changes a file, cannot be stopped before it has it. */
static void nap(struct keeper *k) {
    guard_handle(&k->session.guard);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool group_is_frozen(int dir) {
    uint64_t frozen = 0;

    return file_number(dir, "cgroup.events", "frozen", &frozen) == 0 && frozen == 1;
}

static int freeze_group(struct keeper *k, int dir, struct err *err) {
    uint64_t end = clock_ms() + FREEZE_MS;
    int r = fd_write_file_at(dir, "cgroup.freeze", "1");

    if (r < 0)
        return err_sys(err, r, "freeze the control group");
    k->freeze.group = true;
    while (!group_is_frozen(dir) && clock_ms() < end)
        nap(k);
    return group_is_frozen(dir) ? 0 : err_set(err, -EBUSY, "something inside cannot be stopped now");
}

/* As /proc has it; 0: there is no such process. */
static char state_of(pid_t pid) {
    char path[40], text[TEXT_MAX];
    const char *p;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (fd_read_file_at(AT_FDCWD, path, text, sizeof text) <= 0 || !(p = strrchr(text, ')')) || p[1] != ' ')
        return 0;
    return p[2];
}

/* Where the process is by a descriptor, so that no other one that got its number is meant. */
static void signal_inside(const struct keeper *k, pid_t pid, int sig) {
    CLEANUP(closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    CLEANUP(freep) pid_t *now = calloc(PIDS_MAX, sizeof *now);
    size_t n = fd >= 0 && now ? inside_pids(k, now, PIDS_MAX) : 0;

    for (size_t i = 0; i < n; i++)
        if (now[i] == pid) {
            syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
            return;
        }
}

static int add_frozen(struct keeper *k, pid_t pid) {
    for (size_t i = 0; i < k->freeze.n; i++)
        if (k->freeze.pids[i] == pid)
            return 0;
    return VEC_ADD(k->freeze.pids, k->freeze.n, pid);
}

/* PIDS_MAX at most. *ret_waiting: how many of them are in the kernel, where no signal is looked at. */
static size_t find_awake(const struct keeper *k, pid_t *ret, size_t *ret_waiting) {
    size_t all = inside_pids(k, ret, PIDS_MAX), n = 0;

    *ret_waiting = 0;
    for (size_t i = 0; i < all; i++) {
        char state = state_of(ret[i]);

        if (!state || strchr("TtZX", state)) /* stopped, or a zombie */
            continue;
        *ret_waiting += state == 'D';
        ret[n++] = ret[i];
    }
    return n;
}

/*
 * After vfork() a parent waits in the kernel for its child to execute something; if that was stopped before, it never will. So those that are
 * stopped go on until none waits any more, for so many naps at most. A parent that waited stops then: its SIGSTOP is pending.
 */
static void let_finish(struct keeper *k, pid_t *pids, int naps) {
    size_t waiting;

    for (size_t i = 0; i < k->freeze.n; i++)
        if (state_of(k->freeze.pids[i]) == 'T')
            signal_inside(k, k->freeze.pids[i], SIGCONT);
    do {
        nap(k);
        find_awake(k, pids, &waiting);
    } while (--naps > 0 && waiting);
}

/* Until no process is found awake: one that is forked meanwhile is found the next time. */
static int freeze_each(struct keeper *k, struct err *err) {
    CLEANUP(freep) pid_t *pids = calloc(PIDS_MAX, sizeof *pids);
    uint64_t end = clock_ms() + FREEZE_MS;
    int stuck = 0, patience = PATIENCE_MIN;

    while (pids && clock_ms() < end) {
        size_t waiting, n = find_awake(k, pids, &waiting);

        if (n == 0)
            return 0;
        for (size_t i = 0; i < n; i++) {
            if (add_frozen(k, pids[i]) < 0)
                return err_oom(err);
            signal_inside(k, pids[i], SIGSTOP);
        }
        stuck = waiting == n ? stuck + 1 : 0;
        if (stuck == STUCK_NAPS) {
            let_finish(k, pids, patience);
            patience = MIN_OF(patience * 2, (int)PATIENCE_MAX);
            stuck = 0;
        }
        nap(k);
    }
    return pids ? err_set(err, -EBUSY, "something inside cannot be stopped now") : err_oom(err);
}

int inside_freeze(struct keeper *k, pid_t pid, struct err *err) {
    int dir = freezer(k), r;

    /* A process that was killed lets go of its lock a moment before its pidfd says so. */
    if (k->freeze.thaw_ms && k->freeze.by >= 0 && poll(&(struct pollfd){.fd = k->freeze.by, .events = POLLIN}, 1, DYING_MS) > 0)
        inside_thaw(k);
    if (k->freeze.thaw_ms)
        return err_set(err, -EBUSY, "the sandbox is frozen already");
    k->freeze.thaw_ms = clock_ms() + KEEP_FROZEN_MS;
    k->freeze.by = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    r = dir >= 0 ? freeze_group(k, dir, err) : freeze_each(k, err);
    if (r < 0)
        inside_thaw(k);
    return r;
}

void inside_thaw(struct keeper *k) {
    if (k->freeze.group)
        fd_write_file_at(freezer(k), "cgroup.freeze", "0");
    for (size_t i = 0; i < k->freeze.n; i++)
        signal_inside(k, k->freeze.pids[i], SIGCONT);
    free(TAKE_PTR(k->freeze.pids));
    k->freeze.n = 0;
    k->freeze.group = false;
    k->freeze.thaw_ms = 0;
    closep(&k->freeze.by);
}
