/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/engine.h"
#include "jail/cgroup/cgroup.h"
#include "os/fd.h"
#include "os/process.h"

enum { ABOVE = HELPER_FDS_MAX + 1 }; /* above all that the child gets, and its program */

/* Shared with the child, which runs on our memory until it has become the other program (CLONE_VFORK). */
struct helper_birth {
    const struct helper *h;
    int exe, fds[HELPER_FDS_MAX];
    size_t n_fds;
    pid_t parent;
    int error;
};

/* Ignored ones would stay ignored; blocked ones would stay blocked. */
int helper_default_signals(void) {
    static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD, SIGTTIN, SIGTTOU};
    sigset_t none;

    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (signal(signals[i], SIG_DFL) == SIG_ERR)
            return -errno;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int be_born(const struct helper_birth *b) {
    static const struct rlimit none = {0, 0};
    int exe = (int)b->n_fds, r;

    /* Own group: the terminal's ^C is for the command. Without us it has nothing to live for. */
    if ((!b->h->terminal && setpgid(0, 0) < 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    if (getppid() != b->parent)
        return -ESRCH;
    r = b->h->cgroup ? cgroup_charge(b->h->cgroup) : 0;
    if (r < 0)
        return r;
    setrlimit(RLIMIT_CORE, &none);
    for (size_t i = 0; i < b->n_fds; i++)
        if (dup2(b->fds[i], (int)i) < 0)
            return -errno;
    /* Whoever started bawn may have left descriptors open. */
    r = dup3(b->exe, exe, O_CLOEXEC) < 0 ? -errno : fd_close_from((unsigned)exe + 1);
    r = r < 0 ? r : helper_default_signals();
    if (r < 0)
        return r;
    /* The current directory is the workspace, where a relative name would find what an agent has put there. */
    if (chdir("/") < 0)
        return -errno;
    fexecve(exe, b->h->argv, b->h->envp);
    return -errno;
}

static int child(void *arg) {
    struct helper_birth *b = arg;

    b->error = be_born(b);
    return EXIT_SANDBOX;
}

/* Copies above the numbers where they go, so that none is overwritten before it was copied down. */
static int lift(struct helper_birth *b) {
    CLEANUP(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -errno;
    for (; b->n_fds < b->h->n_fds; b->n_fds++) {
        int from = b->h->fds[b->n_fds], fd = fcntl(from >= 0 ? from : null, F_DUPFD_CLOEXEC, ABOVE);

        if (fd < 0)
            return -errno;
        b->fds[b->n_fds] = fd;
    }
    return 0;
}

static int open_program(const struct helper *h, struct err *err) {
    char path[PATH_MAX];
    int fd = h->program ? open(h->program, O_RDONLY | O_CLOEXEC) : engine_helper(h->name, path, sizeof path);

    if (h->program && fd < 0)
        fd = -errno;
    fd = fd < 0 ? fd : fd_move_above(fd, ABOVE);
    return fd < 0 ? err_sys(err, fd, "find %s, which belongs beside bawn or in ../libexec/bawn", h->name) : fd;
}

int helper_start(const struct helper *h, pid_t *ret_pid, struct err *err) {
    CLEANUP(closep) int exe = open_program(h, err);
    struct helper_birth b = {.h = h, .exe = exe, .parent = getpid()};
    pid_t pid = -1;
    int r;

    if (exe < 0)
        return exe;
    r = lift(&b);
    if (r == 0) {
        pid = process_clone(child, &b, CLONE_VM | CLONE_VFORK, NULL);
        r = pid < 0 ? (int)pid : b.error;
    }
    for (size_t i = 0; i < b.n_fds; i++)
        close(b.fds[i]);
    if (pid > 0 && r < 0)
        process_end(pid);
    if (r < 0)
        return err_sys(err, r, "start %s", h->name);
    *ret_pid = pid;
    return 0;
}

int helper_wait(const char *name, pid_t pid, int *ret_status, struct err *err) {
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_sys(err, -errno, "wait for %s", name);
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : HELPER_SIGNALLED + WTERMSIG(status);
    return 0;
}
