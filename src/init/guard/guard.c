/* SPDX-License-Identifier: Apache-2.0 */
/* The guard's listeners and queue. */
#include "init/guard/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "init/guard/guard_judge.h"
#include "init/guard/guard_sock.h"
#include "init/guard/guard_stage.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "proto/initmsg.h"

/* Linux 6.6; Debian 12's header ends before. The guard then runs on the caller's CPU at once, as with a function call. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

enum { NOTIF_MAX = 512 };

/* With Yama at 2 or 3 reading the memory of others needs a capability, even of descendants. */
static int check_needs(struct err *err) {
    char text[16];
    ssize_t n = fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/yama/ptrace_scope", text, sizeof text);

    if (n > 0 && text[0] >= '2')
        return err_set(err, -EPERM,
                       "direct mode cannot work with kernel.yama.ptrace_scope = %c; use --workspace overlay, sync or ro",
                       text[0]);
    return 0;
}

static int check_socket(int sock, struct err *err) {
    struct stat st;

    if (fstat(sock, &st) < 0 || !S_ISSOCK(st.st_mode))
        return err_set(err, -EBADF, "the guard was not given a socket");
    return 0;
}

static int open_root(struct guard *g, const char *path, struct err *err) {
    char link[GUARD_PROC_PATH];
    ssize_t n;

    g->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (g->root < 0)
        return err_sys(err, -errno, "open the workspace '%s' for the guard", path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", g->root);
    n = readlink(link, g->root_path, sizeof g->root_path);
    if (n <= 1 || n == sizeof g->root_path) /* "/" is no workspace */
        return err_set(err, -EINVAL, "'%s' cannot be a workspace in direct mode", path);
    g->root_path[n] = 0;
    return 0;
}

uint64_t guard_clock_ns(int clock) {
    struct timespec t;

    clock_gettime(clock, &t);
    return time_ns(&t);
}

uint64_t guard_now_ms(void) {
    return guard_clock_ns(CLOCK_MONOTONIC) / 1000000;
}

unsigned guard_kinds(const struct guard *g) {
    return (g->files ? GUARD_FILES : 0u) | (g->socks ? GUARD_SOCKETS : 0u);
}

static void guard_freep(struct guard **g) {
    if (!*g)
        return;
    closep(&(*g)->root);
    guard_rules_done(&(*g)->rules);
    free((*g)->seen.slots);
    free((*g)->known.slots);
    free(*g);
}

int guard_new(const struct init_start *s, int control, int sock, const int gate[static GUARD_GATE_FDS], struct guard **ret,
              struct err *err) {
    CLEANUP(guard_freep) struct guard *g = calloc(1, sizeof *g);
    const char *private_dev = getenv("BAWN_PRIVATE"); /* spec/init-protocol.md */
    int r;

    if (!g)
        return err_oom(err);
    /* One by one: assigning the whole struct would touch all of it, and most is never used. */
    g->start = s;
    g->control = control;
    g->files = s->flags & INIT_FLAG_GUARD;
    g->sock = g->files ? sock : -1;
    g->root = g->proc.own_fds = g->proc.caller = -1;
    g->self = getpid();
    g->private_dev = private_dev ? (dev_t)strtoull(private_dev, NULL, 10) : 0;
    g->born_ns = guard_clock_ns(CLOCK_REALTIME_COARSE);
    g->umask_.start = g->umask_.now = (mode_t)s->umask & 0777;
    g->umask_.varies = !g->files; /* umask(2) does not come here then */
    umask(g->umask_.now);
    r = check_needs(err);
    if (r == 0 && g->files)
        r = check_socket(sock, err);
    if (r == 0 && g->files)
        r = open_root(g, s->guard_root, err);
    if (r == 0 && s->flags & INIT_FLAG_SOCKETS)
        r = socks_new(gate, &g->socks, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(g);
    return 0;
}

/* At the first call, not at the start: most commands of an agent change nothing, and compiling the rules would cost them more
 * than all the rest of bawn-init. Nothing has changed inside until then. If it fails, nothing may. */
static int prepare(struct guard *g) {
    const struct init_start *s = g->start;
    struct err err = {0};
    int r = 0;

    if (g->state != GUARD_NEW)
        return g->state == GUARD_READY ? 0 : -EIO;
    /* Without a mount namespace the mounts are the host's, and Landlock forbids going there. */
    if (!(s->flags & INIT_FLAG_NO_PIDNS))
        r = guard_find_mounts(g, &err);
    r = r < 0 ? r : guard_rules_init(&g->rules, s->hide, s->n_hide, s->protect, s->n_protect, &err);
    r = r < 0 ? r : guard_protect_targets(g, s->protect, s->n_protect, &err);
    r = r < 0 ? r : seen_init(&g->seen);
    r = r < 0 ? r : seen_init(&g->known);
    r = r < 0 ? r : known_init(g);
    g->spool.state = SPOOL_WANTED;
    g->proc.own_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC); /* without it, it is looked up */
    g->state = r < 0 ? GUARD_BROKEN : GUARD_READY;
    return r < 0 ? -EIO : 0;
}

int guard_install(struct guard *g, struct err *err) {
    struct sock_filter code[GUARD_FILTER_MAX];
    struct sock_fprog prog = {.len = (unsigned short)guard_filter_make(g->umask_.start, guard_kinds(g), code), .filter = code};
    const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    uint64_t sync = SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP;
    int fd;

    if (g->listeners.n == GUARD_LISTENERS_MAX)
        return err_set(err, -EAGAIN, "too many commands at once in direct mode (at most %d, with what they left running)",
                       GUARD_LISTENERS_MAX);
    fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
    if (fd < 0 && !g->files)
        return err_sys(err, -errno,
                       "the network needs user namespaces, or seccomp notification that no other program uses here (Linux 5.19); "
                       "use --network none");
    if (fd < 0 && errno == EBUSY)
        return err_set(err, -EBUSY,
                       "direct mode cannot work here: another program already answers the system calls of this one "
                       "(seccomp notification); use --workspace overlay, sync or ro");
    if (fd < 0)
        return err_sys(err, -errno, "direct mode needs Linux 5.19 (seccomp notification); use --workspace overlay, sync or ro");
    ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, sync); /* older kernels only wake up more slowly */
    g->listeners.fds[g->listeners.n++] = fd;
    return 0;
}

int guard_newest(const struct guard *g) {
    return g->listeners.fds[g->listeners.n - 1];
}

void guard_add(struct guard *g, int listener) {
    g->listeners.fds[g->listeners.n++] = listener;
}

size_t guard_poll(const struct guard *g, struct pollfd *ret) {
    static_assert((int)GUARD_POLL_MAX == (int)GUARD_LISTENERS_MAX, "one each");
    for (size_t i = 0; i < g->listeners.n; i++)
        ret[i] = (struct pollfd){.fd = g->listeners.fds[i], .events = POLLIN};
    return g->listeners.n;
}

int guard_socket(const struct guard *g) {
    return g->sock;
}

void guard_orphan(struct guard *g) {
    closep(&g->sock);
}

static void fill(struct call *c, const struct guard_row *row, const __u64 args[6]) {
    for (size_t i = 0; i < ARRAY_LEN(c->arg); i++) {
        uint8_t from = row->from[i];

        c->arg[i] = from == FROM_CWD ? (uint64_t)AT_FDCWD : from == FROM_CONSTANT ? row->constant : args[from];
    }
    c->follow = !row->nofollow;
}

static void reply(const struct call *c, long result) {
    struct seccomp_notif_resp resp = {.id = c->id};

    if (result == GUARD_ANSWERED)
        return;
    if (result == GUARD_CONTINUE)
        resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (result < 0)
        resp.error = (int)result;
    else
        resp.val = result;
    ioctl(c->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp); /* ENOENT: it was killed meanwhile */
}

void guard_take(struct guard *g, int listener) {
    struct guard_queue *q = &g->queue;
    union {
        struct seccomp_notif notif;
        char room[NOTIF_MAX]; /* the kernel's may be longer than our header's */
    } in = {.room = {0}};

    if (q->n == GUARD_QUEUE_MAX || ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in.notif) < 0) /* ENOENT: it was killed meanwhile */
        return;
    q->v[(q->first + q->n++) % GUARD_QUEUE_MAX] = (struct guard_taken){.notif = in.notif, .listener = listener};
}

static int sooner(int a, int b) {
    return a < 0 ? b : b < 0 ? a : MIN_OF(a, b);
}

int guard_timeout(const struct guard *g) {
    int ms = guard_stage_timeout(g);
    uint64_t now;

    if (g->queue.n > 0)
        return 0;
    if (!g->later_ms && !g->socks)
        return ms;
    now = guard_now_ms();
    if (g->later_ms)
        ms = sooner(ms, g->later_ms <= now ? 0 : (int)(g->later_ms - now));
    return g->socks ? sooner(ms, socks_timeout(g->socks, now)) : ms;
}

/* Calls that were put off go to the end of the queue, in their order. */
static void take_later(struct guard *g) {
    struct guard_queue *q = &g->queue;
    size_t n = MIN_OF(g->n_later, GUARD_QUEUE_MAX - q->n);

    if (!g->later_ms || g->later_ms > guard_now_ms())
        return;
    for (size_t i = 0; i < n; i++)
        q->v[(q->first + q->n++) % GUARD_QUEUE_MAX] = g->later[i];
    g->n_later -= n;
    memmove(g->later, g->later + n, g->n_later * sizeof *g->later);
    g->later_ms = g->n_later ? guard_now_ms() + GUARD_LATER_MS : 0;
}

/* judge_rest() has seen that there is room. */
static void put_off(struct guard *g, const struct guard_taken *t) {
    uint64_t now = guard_now_ms();

    g->later[g->n_later] = *t;
    if (!t->since_ms)
        g->later[g->n_later].since_ms = now;
    g->n_later++;
    g->later_ms = now + GUARD_LATER_MS;
}

/* One call of each listener that has one, in turn, so that no flood delays the others. */
static void take_all(struct guard *g, const struct pollfd *p, size_t n) {
    size_t first = n ? g->listeners.next++ % n : 0;

    for (size_t i = 0; i < n; i++) {
        const struct pollfd *one = &p[(first + i) % n];

        if (one->revents & POLLIN)
            guard_take(g, one->fd);
    }
}

/* No process is left behind its filter, so none waits for an answer. Its number will be another descriptor's. */
static void forget_calls(struct guard_queue *q, int listener) {
    size_t left = 0;

    for (size_t i = 0; i < q->n; i++) {
        const struct guard_taken *t = &q->v[(q->first + i) % GUARD_QUEUE_MAX];

        if (t->listener != listener)
            q->v[(q->first + left++) % GUARD_QUEUE_MAX] = *t;
    }
    q->n = left;
}

static void forget_later(struct guard *g, int listener) {
    size_t left = 0;

    for (size_t i = 0; i < g->n_later; i++)
        if (g->later[i].listener != listener)
            g->later[left++] = g->later[i];
    g->n_later = left;
}

/* A listener without processes would wake us for ever. */
static void drop_dead(struct guard *g, const struct pollfd *p, size_t n) {
    struct guard_listeners *l = &g->listeners;

    for (size_t i = n; i-- > 0;)
        if ((p[i].revents & (POLLHUP | POLLIN)) == POLLHUP) {
            forget_calls(&g->queue, p[i].fd);
            forget_later(g, p[i].fd);
            close(p[i].fd);
            l->fds[i] = l->fds[--l->n];
        }
}

/* The supervisor waits for the end of a turn before it decides about what it sees. */
static int begin_turn(struct guard *g) {
    int r;

    if (g->share)
        g->share->turn |= 1;
    r = prepare(g);
    if (r == 0 && g->share->links_len != g->links_read && known_read_links(g) < 0)
        g->state = GUARD_BROKEN;
    return g->state == GUARD_BROKEN ? -EIO : r;
}

static void handle_one(struct guard *g) {
    struct guard_queue *q = &g->queue;
    const struct guard_taken t = q->v[q->first];
    struct call c = {.g = g, .listener = t.listener, .id = t.notif.id, .tid = (pid_t)t.notif.pid};
    const struct guard_row *row = guard_row(t.notif.data.nr, guard_kinds(g));
    long result = -EPERM;

    if (row)
        fill(&c, row, t.notif.data.args);
    g->waited_ms = t.since_ms ? guard_now_ms() - t.since_ms : 0;
    q->first = (q->first + 1) % GUARD_QUEUE_MAX; /* before it is done: more may be taken meanwhile */
    q->n--;
    if (row) {
        result = g->files ? begin_turn(g) : 0;
        result = result < 0 ? result : row->run(&c);
    }
    if (result == GUARD_LATER)
        put_off(g, &t);
    else
        reply(&c, result);
    if (g->share)
        g->share->turn = (g->share->turn + 1) & ~1u;
}

void guard_handle(struct guard *g, const struct pollfd *p, size_t n) {
    take_later(g);
    if (g->queue.n == 0)
        take_all(g, p, n);
    drop_dead(g, p, n);
    if (g->files)
        guard_settle(g); /* what was closed before the call that comes next */
    if (g->socks)
        socks_tick(g->socks, guard_now_ms());
    if (g->queue.n > 0)
        handle_one(g);
}
