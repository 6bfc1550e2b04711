/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command with a terminal of its own has a parent in its session: a copy of bawn-init that only waits. The kernel lets a terminal's keys stop a
 * process group only if a process outside of the group, but in its session, could continue it; without that ^Z would be lost on every program
 * that is no shell.
 *
 *   Should: lead the session, have the terminal, tell bawn-init how its one child stops and ends, pass a hang-up on, and end with it.
 *   Mustn't: hold any descriptor but that of what it tells, or be of use to the inside: it is not dumpable, as bawn-init itself. Unlike
 *   bawn-init it can be killed or stopped from inside. That harms its own command: jobs.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"
#include "os/sock.h"

enum { TICK_MS = 20 };

/* How the start went; with the guard's listener if it succeeded and there is a guard. */
struct begun {
    int result, exec_errno; /* of command_start() */
    pid_t pid;
    struct err err;
};

struct holder_report {
    int job, status;
};

static int lead(const struct command *c, struct err *err) {
    if (setsid() < 0)
        return err_sys(err, -errno, "own session");
    return ioctl(c->tty, TIOCSCTTY, 0) < 0 ? err_sys(err, -errno, "controlling terminal") : 0;
}

static void tell_changes(pid_t pid, int job) {
    struct holder_report t = {.job = job};

    while (waitpid(pid, &t.status, WNOHANG | WUNTRACED) > 0) {
        sock_send(STDIN_FILENO, &t, sizeof t, NULL, 0);
        if (!WIFSTOPPED(t.status))
            _exit(0);
    }
}

/* Signals are blocked here as in bawn-init. When its terminal is gone the kernel tells the leader of the session only. */
static NORETURN void hold(pid_t pid, int job) {
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGHUP);
    for (;;) {
        tell_changes(pid, job);
        if (sigwaitinfo(&set, NULL) == SIGHUP) {
            kill(pid, SIGHUP);
            kill(pid, SIGCONT);
        }
    }
}

static NORETURN void holder_main(struct init *in, int job, const struct command *c, int answer) {
    struct begun b = {0};
    int listener = -1;

    b.result = lead(c, &b.err);
    b.result = b.result < 0 ? b.result : command_start(in, c, &b.pid, &b.exec_errno, &b.err);
    if (b.result == 0 && in->guard)
        listener = guard_newest(in->guard);
    if (sock_send(answer, &b, sizeof b, &listener, listener >= 0) < 0 || b.result != 0)
        _exit(EXIT_SANDBOX);
    if (dup2(in->held[1], STDIN_FILENO) < 0 || fd_close_from(STDIN_FILENO + 1) < 0)
        _exit(EXIT_SANDBOX);
    hold(b.pid, job);
}

static int make_channel(struct init *in, struct err *err) {
    int r = in->held[0] >= 0 ? 0 : sock_pair(in->held);

    if (r == 0 && fcntl(in->held[0], F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        r = -errno;
    return r < 0 ? err_sys(err, r, "socket for the command's parent") : 0;
}

/* It may be stopped from inside before it has reported anything. */
static void wait_for(pid_t holder, int answer) {
    struct pollfd p = {.fd = answer, .events = POLLIN};
    unsigned stops = 0;

    while (poll(&p, 1, TICK_MS) <= 0)
        command_unstop(holder, &stops);
}

static int wait_begun(struct init *in, pid_t holder, int answer, struct begun *ret, struct err *err) {
    size_t n_fds = 1;
    int listener = -1;
    long n;

    wait_for(holder, answer);
    n = sock_recv(answer, ret, sizeof *ret, &listener, &n_fds);
    if (n != (long)sizeof *ret)
        return err_set(err, -ECHILD, "the command was killed before it began");
    if (n_fds)
        guard_add(in->guard, listener);
    return 0;
}

int holder_start(struct init *in, int id, const struct command *c, struct job *ret, int *ret_errno, struct err *err) {
    CLEANUP(closep) int ours = -1, theirs = -1;
    struct begun b = {0};
    int pair[2], r = make_channel(in, err);
    pid_t pid;

    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "socket for the command's parent");
    ours = pair[0];
    theirs = pair[1];
    pid = fork(); /* a copy, not our memory: it lives beside us */
    if (pid < 0)
        return err_sys(err, -errno, "start the command");
    if (pid == 0)
        holder_main(in, id, c, theirs);
    closep(&theirs);
    r = wait_begun(in, pid, ours, &b, err);
    if (r < 0)
        return r;
    if (b.result < 0)
        *err = b.err;
    *ret = (struct job){.id = id, .pid = b.pid, .child = pid};
    *ret_errno = b.exec_errno;
    return b.result;
}

void holder_read(struct init *in) {
    struct holder_report t;

    while (in->held[0] >= 0 && sock_recv(in->held[0], &t, sizeof t, NULL, NULL) == (long)sizeof t)
        jobs_changed(in, t.job, t.status);
}
