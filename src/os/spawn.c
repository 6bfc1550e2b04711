/* SPDX-License-Identifier: Apache-2.0 */
/* Other programs: start, wait, collect. */
#include "os/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"

enum { PART = 16 * 1024, LIMIT_TICK_MS = 200 };

/* Shared with the child. */
struct spawn_birth {
    const struct spawn *s;
    pid_t parent;
    int error;
};

/* -- the child: only system calls --------------------------------------------------------------------------------------- */

static int set_group(enum spawn_group group) {
    switch (group) {
    case SPAWN_GROUP:
        return setpgid(0, 0) < 0 ? -errno : 0;
    case SPAWN_SESSION:
        return setsid() < 0 ? -errno : 0;
    case SPAWN_TERMINAL:
        break;
    }
    return 0;
}

/* After `before`: a change of ids clears it. */
static int die_with(pid_t parent, int sig) {
    if (prctl(PR_SET_PDEATHSIG, sig ? sig : SIGKILL) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

/* Above the numbers that are filled in, so that none is overwritten before it was copied down. */
static int lift(int fd, int above) {
    int copy = fd >= above ? fd : fcntl(fd, F_DUPFD_CLOEXEC, above);

    return copy < 0 ? -errno : copy;
}

/* The first after those that are filled in: there the program's own descriptor goes, which closes itself. */
static int count_fds(const struct spawn *s) {
    return MAX_OF((int)s->n_fds, STDERR_FILENO + 1);
}

/* The child has a table of its own, so nothing has to be undone. */
static int place_fds(const struct spawn *s) {
    int from[SPAWN_FDS_MAX], n = count_fds(s), null = -1, exe = s->exe > 0 ? lift(s->exe, n + 1) : n;

    if (exe < 0)
        return exe;
    for (int i = 0; i < n; i++) {
        int fd = i < (int)s->n_fds ? s->fds[i] : -1;

        if (fd < 0 && null < 0 && (null = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
            return -errno;
        from[i] = lift(fd < 0 ? null : fd, n + 1);
        if (from[i] < 0)
            return from[i];
    }
    for (int i = 0; i < n; i++)
        if (dup2(from[i], i) < 0)
            return -errno;
    if (s->exe > 0 && dup3(exe, n, O_CLOEXEC) < 0)
        return -errno;
    return fd_close_from((unsigned)n + (s->exe > 0));
}

static int enter_cwd(int cwd) {
    if (cwd == SPAWN_CWD_STAY)
        return 0;
    return (cwd == SPAWN_CWD_ROOT ? chdir("/") : fchdir(cwd)) < 0 ? -errno : 0;
}

static int execute(const struct spawn *s) {
    char *const none[] = {NULL}, *const *envp = s->envp ? s->envp : none;

    if (s->exe > 0)
        fexecve(count_fds(s), s->argv, envp);
    else if (s->search)
        execvpe(s->path, s->argv, envp);
    else
        execve(s->path, s->argv, envp);
    return -errno;
}

static int become(const struct spawn_birth *b) {
    const struct spawn *s = b->s;
    int r = set_group(s->group);

    if (r == 0 && s->before)
        r = s->before(s->arg);
    if (r == 0 && !s->outlives)
        r = die_with(b->parent, s->end_signal);
    if (r == 0) /* before its descriptor is closed */
        r = enter_cwd(s->cwd);
    if (r == 0)
        r = place_fds(s);
    if (r == 0 && !s->same_signals)
        r = sigfd_default(s->mask);
    return r < 0 ? r : execute(s);
}

static int spawn_child(void *arg) {
    struct spawn_birth *b = arg;

    b->error = become(b);
    return EXIT_NOTFOUND;
}

/* -- we ----------------------------------------------------------------------------------------------------------------- */

int spawn_start(const struct spawn *s, pid_t *ret_pid, int *ret_pidfd) {
    struct spawn_birth here, *b = &here;
    pid_t pid;
    int error;

    if (s->n_fds > SPAWN_FDS_MAX)
        BUG("more descriptors than SPAWN_FDS_MAX");
    if (s->own_memory)
        b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return -errno;
    *b = (struct spawn_birth){.s = s, .parent = getpid()};
    pid = process_clone(spawn_child, b, CLONE_VFORK | (s->own_memory ? 0 : CLONE_VM), ret_pidfd);
    error = b->error;
    if (s->own_memory)
        munmap(b, sizeof *b);
    if (pid < 0)
        return (int)pid;
    if (error < 0) {
        process_end(pid);
        if (ret_pidfd)
            closep(ret_pidfd);
        return error;
    }
    *ret_pid = pid;
    return 0;
}

int spawn_run(const struct spawn *s) {
    pid_t pid;
    int r = spawn_start(s, &pid, NULL);

    return r < 0 ? r : process_wait(pid);
}

/* Both to their ends. */
static int read_both(const struct spawn *s, const int ends[2], struct buf *out, struct buf *said) {
    uint64_t until = s->limit_ms ? clock_ms() + (uint64_t)s->limit_ms : 0;
    struct pollfd p[] = {{.fd = ends[0], .events = POLLIN}, {.fd = ends[1], .events = POLLIN}};
    char part[PART];

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (until && (clock_ms() >= until || (s->heeds_end && sigfd_end_waits())))
            return clock_ms() >= until ? -ETIMEDOUT : -EINTR;
        if (poll(p, ARRAY_LEN(p), until ? LIMIT_TICK_MS : -1) < 0) {
            if (errno != EINTR)
                return -errno;
            continue; /* what it said the last time does not hold any more, and a read could wait */
        }
        for (size_t i = 0; i < ARRAY_LEN(p); i++) {
            ssize_t n = p[i].fd >= 0 && p[i].revents ? fd_read_some(p[i].fd, part, sizeof part) : -EAGAIN;

            if (n == 0 || (n < 0 && n != -EAGAIN))
                p[i].fd = -1;
            else if (n > 0 && i == 0)
                buf_add(out, part, (size_t)n);
            else if (n > 0)
                buf_add(said, part, MIN_OF((size_t)n, said->ceiling - said->len));
        }
        if (out && !buf_ok(out))
            return -EFBIG;
    }
    return 0;
}

static int start_with_pipes(const struct spawn *s, bool out, bool said, int ret_ends[2], pid_t *ret_pid) {
    CLEANUP(closep) int to_out = -1, to_said = -1;
    int fds[SPAWN_FDS_MAX] = {-1, -1, -1}, r = 0;
    struct spawn piped = *s;

    if (s->n_fds > SPAWN_FDS_MAX)
        BUG("more descriptors than SPAWN_FDS_MAX");
    if (s->n_fds)
        memcpy(fds, s->fds, s->n_fds * sizeof *fds);
    if (out)
        r = fd_pipe(&ret_ends[0], &to_out);
    if (r == 0 && said)
        r = fd_pipe(&ret_ends[1], &to_said);
    if (r < 0)
        return r;
    fds[1] = out ? to_out : fds[1];
    fds[2] = said ? to_said : fds[2];
    piped.fds = fds;
    piped.n_fds = MAX_OF(s->n_fds, (size_t)3);
    return spawn_start(&piped, ret_pid, NULL);
}

int spawn_collect(const struct spawn *s, struct buf *out, struct buf *said) {
    int ends[2] = {-1, -1}, status;
    pid_t pid;
    int r = start_with_pipes(s, out != NULL, said != NULL, ends, &pid);

    if (r == 0) {
        r = read_both(s, ends, out, said);
        status = r < 0 ? process_end(pid) : process_wait(pid);
        r = r < 0 ? r : status;
    }
    closep(&ends[0]);
    closep(&ends[1]);
    return r;
}
