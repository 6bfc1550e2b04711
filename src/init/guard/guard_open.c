/* SPDX-License-Identifier: Apache-2.0 */
/* open(2) and its relatives. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include "init/guard/guard_judge.h"
#include "init/guard/guard_run.h"
#include "init/guard/guard_stage.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"

enum {
    TMPFILE = 020000000, /* __O_TMPFILE: the kernel's bit of O_TMPFILE, the other one is O_DIRECTORY */
    TTY_MAJOR = 5,       /* /dev/tty is (5, 0) */
    PTS_MAJOR_FIRST = 136,
    PTS_MAJOR_LAST = 143,
    PTS_PER_MAJOR = 256,
    LOOK_AGAIN_US = 50000 /* how often a blocked open looks whether its caller still lives */
};

int guard_install_fd(const struct call *c, int fd, bool cloexec) {
    struct seccomp_notif_addfd add = {
        .id = c->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)fd, .newfd_flags = cloexec ? O_CLOEXEC : 0};

    if (ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0)
        return GUARD_ANSWERED;
    return errno == ENOENT ? GUARD_ANSWERED : -errno; /* ENOENT: the caller died; else its limit of descriptors */
}

/* A file that is open for writing anywhere cannot be executed (ETXTBSY), and a caller that copies a program may write, close and execute it
 * before we run again. So it goes on only when our own descriptor is closed: it is answered by the number of its own, which costs another
 * turn of both. A file that is not executable yet becomes that by a call that comes to us, too. Takes fd. */
static int hand_over_writer(const struct call *c, int fd, bool cloexec) {
    struct seccomp_notif_addfd add = {.id = c->id, .srcfd = (uint32_t)fd, .newfd_flags = cloexec ? O_CLOEXEC : 0};
    int r = ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add), e = errno;

    close(fd);
    return r >= 0 ? r : e == ENOENT ? GUARD_ANSWERED : -e;
}

static bool writes(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC);
}

/* Without a name, and not made or opened for writing inside. */
static bool is_a_stranger(const struct guard *g, const struct place *p) {
    return p->trace == PLACE_GONE && p->st.st_dev == g->root_dev && !known_has(g, &p->st, p->birth_ns);
}

/* Only a regular file can be changed by opening it; the kernel refuses to open a folder for writing, and a FIFO keeps
 * nothing. */
static int judge_open(const struct call *c, const struct place *p, int flags) {
    struct guard *g = c->g;
    int r;

    if (flags & TMPFILE)
        return 0;
    if (p->exists && !(S_ISREG(p->st.st_mode) && writes(flags)))
        return 0;
    if (p->exists && p->object >= 0 && is_a_stranger(g, p)) /* no name says what it was */
        return guard_refuse(g, "", GUARD_WHY_PROTECTED, -EACCES);
    if (!p->rel)
        return p->exists ? judge_write(g, p) : 0;
    if (!p->exists && (!(flags & O_CREAT) || strchr(p->name, '/')))
        return 0;
    r = p->exists ? judge_write(g, p) : judge_create(g, p, RULES_FILE);
    return r < 0 ? r : guard_touch(g, p, false);
}

/* /dev/tty is the terminal of the process that opens it. Where it is also ours the device itself does; another one is opened by its
 * name. */
static int open_terminal(const struct call *c, const struct place *p, int flags) {
    unsigned major, minor, own_major, own_minor;
    struct call own = {.g = c->g, .tid = c->g->self};
    char path[GUARD_PROC_PATH];
    int fd, r = caller_terminal(c, &major, &minor);

    if (r < 0)
        return r;
    if (caller_terminal(&own, &own_major, &own_minor) == 0 && own_major == major && own_minor == minor)
        return place_open(p, flags, 0);
    if (major < PTS_MAJOR_FIRST || major > PTS_MAJOR_LAST)
        return -ENXIO;
    snprintf(path, sizeof path, "/dev/pts/%u", (major - PTS_MAJOR_FIRST) * PTS_PER_MAJOR + minor);
    fd = open(path, (flags & ~(O_CREAT | O_EXCL)) | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void send_error(const struct call *c, int r) {
    struct seccomp_notif_resp resp = {.id = c->id, .error = r};

    ioctl(c->listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static void on_alarm(int sig UNUSED) {}

/* Waits for the other end of a FIFO; a clock interrupts it, because nothing else reports that the caller was killed. */
static int open_patiently(const struct call *c, const struct place *p, int flags) {
    struct sigaction act = {.sa_handler = on_alarm};
    struct itimerval clock = {{0, LOOK_AGAIN_US}, {0, LOOK_AGAIN_US}}, off = {{0, 0}, {0, 0}};
    sigset_t alarm_;
    int fd;

    sigemptyset(&alarm_);
    sigaddset(&alarm_, SIGALRM);
    sigaction(SIGALRM, &act, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm_, NULL);
    setitimer(ITIMER_REAL, &clock, NULL);
    do
        fd = place_open(p, flags, 0);
    while (fd == -EINTR && caller_waits(c));
    setitimer(ITIMER_REAL, &off, NULL);
    return fd;
}

/* While it waits the name may become another file's, or vanish: what is opened must be what was judged. */
static int pin_fifo(struct place *p) {
    int fd;

    if (p->object >= 0)
        return 0;
    fd = openat(p->dir, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    fd = fd < 0 ? -errno : place_set_object(p, fd);
    return fd < 0 ? fd : S_ISFIFO(p->st.st_mode) ? 0 : -EAGAIN;
}

/* In a process of its own, so that all other calls go on. It is as little dumpable as we are. */
static int open_apart(const struct call *c, struct place *p, int flags) {
    int fd, r = pin_fifo(p);
    pid_t pid = r < 0 ? 0 : fork();

    if (r < 0)
        return r;
    if (pid != 0)
        return pid < 0 ? -errno : GUARD_ANSWERED;
    prctl(PR_SET_PDEATHSIG,
          SIGKILL); /* without us the caller's call must fail, but not as long as a process holds the listener */
    if (getppid() != c->g->self)
        _exit(0);
    close(c->g->control); /* a closed socket is how the supervisor learns that bawn-init is gone */
    closep(&c->g->sock);
    fd = open_patiently(c, p, flags);
    r = fd < 0 ? fd : guard_install_fd(c, fd, flags & O_CLOEXEC);
    if (r != GUARD_ANSWERED)
        send_error(c, r);
    _exit(0);
}

static bool may_block(const struct place *p, int flags) {
    return p->exists && S_ISFIFO(p->st.st_mode) && !(flags & O_NONBLOCK) && (flags & O_ACCMODE) != O_RDWR;
}

static int do_open(const struct call *c, const struct place *p, int flags, mode_t mode) {
    if (p->exists && S_ISCHR(p->st.st_mode) && p->st.st_rdev == makedev(TTY_MAJOR, 0))
        return open_terminal(c, p, flags);
    if (flags & (O_CREAT | TMPFILE)) {
        int r = caller_umask(c);

        if (r < 0)
            return r;
    }
    return place_open(p, flags, mode);
}

/* What was judged as new is made, and what was judged as there is opened, whatever the host does meanwhile. */
static int exact_flags(const struct place *p, int flags) {
    if (!p->rel || p->object >= 0 || !(flags & O_CREAT) || strchr(p->name, '/'))
        return flags;
    return !p->exists ? flags | O_EXCL : S_ISREG(p->st.st_mode) ? flags & ~O_CREAT : flags;
}

/* Before the caller has it: which file it is. -ESTALE: another than the one that was judged. 1: it can be written and executed. */
static int note_opened(struct guard *g, const struct place *p, int fd, int flags) {
    struct stat st;
    uint64_t birth_ns;
    int r;

    if (!writes(flags) && !(flags & (O_CREAT | TMPFILE)))
        return 0;
    r = stat_born(fd, "", AT_EMPTY_PATH, &st, &birth_ns);
    if (r < 0)
        return r;
    if (p->exists && !(flags & TMPFILE) && (st.st_ino != p->st.st_ino || st.st_dev != p->st.st_dev))
        return p->rel ? -ESTALE : 0;
    known_add(g, &st, birth_ns, p->exists && !(flags & TMPFILE) && judge_is_fresh(g, &st, birth_ns));
    return (flags & O_ACCMODE) != O_RDONLY && S_ISREG(st.st_mode) && (st.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH));
}

static bool makes(const struct place *p, int flags) {
    return p->rel && !p->exists && (flags & O_CREAT) && !(flags & TMPFILE);
}

static long open_once(struct call *c, const char *path) {
    CLEANUP(place_done) struct place p = PLACE_INIT;
    CLEANUP(closep) int fd = -1;
    int flags = (int)c->arg[2], r;
    bool exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);

    r = place_find(c, (int)c->arg[0], path, !(flags & O_NOFOLLOW) && !exclusive, &p);
    if (r < 0)
        return r;
    if (!caller_waits(c))
        return GUARD_ANSWERED;
    if (p.exists && exclusive && !(flags & TMPFILE))
        return -EEXIST;
    if (p.rel && !p.exists && !(flags & (O_CREAT | TMPFILE))) /* the host may make it in this moment: that one was not judged */
        return -ENOENT;
    if ((flags & O_ACCMODE) != O_RDONLY && !(flags & TMPFILE) && guard_stage_wants(c->g, &p))
        return guard_stage_open(c, &p, flags, (mode_t)c->arg[3] & 07777);
    r = judge_open(c, &p, flags);
    if (r < 0)
        return r;
    if (may_block(&p, flags))
        return open_apart(c, &p, flags);
    r = makes(&p, flags) ? guard_making(c->g, &p, RULES_FILE) : 0;
    if (r < 0)
        return r;
    fd = do_open(c, &p, exact_flags(&p, flags), (mode_t)c->arg[3] & 07777);
    if (r > 0)
        guard_made(c->g, &p, fd);
    if ((fd == -EEXIST && !p.exists && !exclusive) || (fd == -ENOENT && p.exists && (flags & O_CREAT)))
        return -ESTALE;
    r = fd < 0 ? fd : note_opened(c->g, &p, fd, flags);
    if (r > 0)
        return hand_over_writer(c, TAKE_FD(fd), flags & O_CLOEXEC);
    return r < 0 ? r : guard_install_fd(c, fd, flags & O_CLOEXEC);
}

/* If the host makes, replaces or removes the file at the same time, it is judged again. */
long guard_run_open(struct call *c) {
    char path[PATH_MAX];
    long r = caller_path(c, 1, path);

    if (r < 0)
        return r;
    for (int i = 0; i < GUARD_TRIES; i++) {
        r = open_once(c, path);
        if (r != -ESTALE)
            return r;
    }
    return -EBUSY;
}
