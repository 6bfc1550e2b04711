/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a persistent sandbox, in the foreground of our terminal. */
#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "proto/execmsg.h"
#include "supervisor/keep/exec_client_priv.h"
#include "supervisor/session/run_loop.h"
#include "supervisor/terminal/stdio.h"
#include "supervisor/terminal/tty.h"

enum { OWN_FDS = 2, PTY_HOLDS_MAX = 256 * 1024 };

struct exec_client {
    const struct exec_options *opt;
    int sock, signals;
    struct stdio io;
    struct buf body;
    struct exec_result *result;
    struct err *err;
    bool ended, stopping; /* stopping: the user wants the command stopped, as a job of the shell */
    bool asked;           /* to end, before it is known to have begun */
};

void exec_send_signal(int sock, int sig, bool group) {
    struct exec_msg m = {.type = EXEC_MSG_SIGNAL, .value = sig, .extra = group};

    execmsg_send(sock, &m, NULL, NULL, 0);
}

void exec_exited(const struct exec_msg *m, struct exec_result *ret) {
    ret->end = (unsigned)m->extra;
    if (ret->end & EXEC_END_NOEXEC) {
        ret->started = false;
        ret->exec_errno = m->value;
        ret->status = err_exec_status(m->value);
        return;
    }
    ret->started = true;
    ret->signal = WIFSIGNALED(m->value) ? WTERMSIG(m->value) : 0;
    ret->status = process_exit_status(m->value);
    if (ret->end & EXEC_END_TIMEOUT)
        ret->status = EXIT_TIMEOUT;
}

void exec_lost(struct exec_result *ret) {
    ret->started = true;
    ret->end = EXEC_END_STOP;
    ret->signal = SIGKILL;
    ret->status = 128 + SIGKILL;
}

void exec_request_terminal(struct exec_request *r, int tty, const struct termios *modes) {
    struct winsize size;

    if (tty >= 0 && ioctl(tty, TIOCGWINSZ, &size) == 0) {
        r->rows = size.ws_row;
        r->cols = size.ws_col;
    }
    if (modes)
        exec_request_modes(r, modes);
}

static int send_request(struct exec_client *c) {
    static const unsigned as_pty[3] = {EXEC_TTY_STDIN, EXEC_TTY_STDOUT, EXEC_TTY_STDERR},
                          as_fd[3] = {EXEC_STDIN, EXEC_STDOUT, EXEC_STDERR};
    struct exec_request r = c->opt->request;
    struct termios modes;
    int fds[EXEC_FDS_MAX];
    size_t n = 0;

    r.flags = c->io.plan.pty ? EXEC_TTY : 0;
    for (int i = 0; i < 3; i++) {
        if (c->io.plan.way[i] == STDIO_WAY_PTY)
            r.flags |= as_pty[i];
        if (c->io.inside[i] < 0)
            continue;
        r.flags |= as_fd[i];
        fds[n++] = c->io.inside[i];
    }
    if (c->io.plan.pty) {
        exec_request_terminal(&r, c->io.tty, stdio_inner_modes(&c->io, &modes) ? &modes : NULL);
        c->io.modes.set = true;
    }
    return exec_send_request(c->sock, &r, fds, n, c->err);
}

/* A supervisor that is stuck passes nothing on: the second such signal ends us, and hanging up ends what may have begun. */
static void pass_on(struct exec_client *c, const struct signalfd_siginfo *info) {
    struct sigaction now;

    /* A run's command inherits what its caller ignores (nohup); this one has nothing of ours, so it must not get these signals. */
    if (sigaction((int)info->ssi_signo, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
        return;
    c->io.impatient |= loop_is_end(info->ssi_signo);
    if (!c->result->started && loop_is_end(info->ssi_signo) && TAKE(c->asked, true)) {
        c->result->signal = (int)info->ssi_signo;
        c->result->status = 128 + c->result->signal;
        c->ended = true;
        return;
    }
    exec_send_signal(c->sock, (int)info->ssi_signo, info->ssi_code == SI_KERNEL || info->ssi_signo == SIGTERM);
}

/*
 * As in run_loop.c: a signal of the terminal (SI_KERNEL) goes to the whole job, one that a process sent, to the command. But SIGTERM, which is how
 * programs end us, goes to the whole job in any case: in a run everything ends with the command, here its children would live on.
 */
static void on_signal(struct exec_client *c) {
    struct signalfd_siginfo info;

    while (sigfd_next(c->signals, &info))
        switch (info.ssi_signo) {
        case SIGWINCH:
            stdio_resize(&c->io);
            break;
        case SIGTTOU:
        case SIGTTIN:
        case SIGPIPE:
            break;
        case SIGTSTP: /* a command without a terminal leads its session, and in such a group the kernel ignores SIGTSTP */
            c->stopping = true;
            exec_send_signal(c->sock, SIGSTOP, true);
            break;
        case SIGCONT:
            stdio_resume(&c->io); /* another process stopped us; the shell has reset the terminal since */
            exec_send_signal(c->sock, SIGCONT, info.ssi_code == SI_KERNEL);
            break;
        default:
            pass_on(c, &info);
        }
}

/* Stopped from inside, with no user who would see and continue us: then we stay, and a signal can end it. */
static void on_stopped(struct exec_client *c, int sig) {
    if (!c->stopping && !tty_has_us())
        return;
    stdio_suspend(&c->io);
    tty_stop_job(TAKE(c->stopping, false) ? SIGTSTP : sig);
    stdio_resume(&c->io);
    exec_send_signal(c->sock, SIGCONT, true);
}

static int on_started(struct exec_client *c, int job, int master) {
    int r;

    c->result->job = job;
    c->result->started = true;
    if (!c->io.plan.pty)
        return 0;
    if (master < 0)
        return err_set(c->err, -EPROTO, "the sandbox's supervisor sent no terminal");
    r = stdio_attach_master(&c->io, master, c->err);
    if (r == 0)
        stdio_start(&c->io);
    return r;
}

static int on_message(struct exec_client *c) {
    CLEANUP(closep) int fd = -1;
    struct exec_msg m;
    int r = exec_recv(c->sock, &m, &c->body, &fd, c->err);

    if (r < 0)
        return r;
    if (r == 0 && !c->result->started)
        return exec_gone(c->opt->sandbox, c->err);
    if (r == 0) {
        exec_lost(c->result);
        c->ended = true;
        return 0;
    }
    switch (m.type) {
    case EXEC_MSG_STARTED:
        return on_started(c, m.value, TAKE_FD(fd));
    case EXEC_MSG_STOPPED:
        on_stopped(c, m.value);
        return 0;
    case EXEC_MSG_EXITED:
        exec_exited(&m, c->result);
        c->ended = true;
        return 0;
    case EXEC_MSG_FAILED:
        return exec_failed(&m, &c->body, c->err);
    default:
        return exec_unexpected(&m, c->err);
    }
}

static int watch_client(struct exec_client *c) {
    struct pollfd fds[OWN_FDS + STDIO_POLL_MAX];

    fds[0] = (struct pollfd){.fd = c->sock, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = c->signals, .events = POLLIN};
    while (!c->ended) {
        size_t n = stdio_poll_fds(&c->io, fds + OWN_FDS);
        int r = 0;

        if (poll(fds, OWN_FDS + n, stdio_timeout_ms(&c->io)) < 0 && errno != EINTR)
            return err_sys(c->err, -errno, "poll");
        if (fds[1].revents)
            on_signal(c);
        stdio_handle(&c->io, fds + OWN_FDS, n);
        if (fds[0].revents)
            r = on_message(c);
        if (r < 0)
            return r;
    }
    return 0;
}

/* How far a flow has to get for all that the command itself wrote to be through. */
static uint64_t target(const struct stdio_flow *f) {
    int waiting = 0;

    if (!f->active || ioctl(f->src, FIONREAD, &waiting) < 0)
        return f->bytes;
    return f->bytes + (uint64_t)MAX_OF(waiting, 0);
}

static bool is_through(const struct stdio_flow *f, uint64_t until) {
    return !f->active || (f->len == 0 && f->bytes >= until);
}

/*
 * The command is over, but unlike after a run others may live on inside, with its pipe or its terminal open, and write for
 * ever. So only what is in the pipes now is forwarded; a pty ends by itself with its session leader, and what is reopened
 * then is cut.
 */
static void drain_streams(struct exec_client *c) {
    struct pollfd fds[STDIO_POLL_MAX + 1];
    const uint64_t out = target(&c->io.out), errors = target(&c->io.err), screen = c->io.screen.bytes + PTY_HOLDS_MAX;

    stdio_finish(&c->io);
    while (!is_through(&c->io.out, out) || !is_through(&c->io.err, errors) || !is_through(&c->io.screen, screen)) {
        size_t n = stdio_poll_fds(&c->io, fds);

        fds[n] = (struct pollfd){.fd = c->signals, .events = POLLIN};
        if (poll(fds, n + 1, stdio_timeout_ms(&c->io)) < 0 && errno != EINTR)
            return;
        stdio_handle(&c->io, fds, n);
        if (fds[n].revents && loop_asked_to_end(c->signals))
            return;
    }
}

static int run_client(struct exec_client *c) {
    uint64_t begun = clock_us();
    int r = send_request(c);

    stdio_close_inside(&c->io);
    if (r < 0)
        return r;
    if (!c->io.plan.pty)
        stdio_start(&c->io);
    r = watch_client(c);
    c->result->duration_us = clock_us() - begun;
    if (r == 0) {
        drain_streams(c);
        c->result->status = stdio_status(&c->io, c->result->status);
    }
    return r;
}

int exec_foreground(int sock, const struct exec_options *opt, struct exec_result *ret, struct err *err) {
    struct exec_client c = {
        .opt = opt, .sock = sock, .signals = -1, .body = BUF_INIT(EXEC_INLINE_MAX), .result = ret, .err = err};
    struct stdio_opts io = {.fd = {0, 1, 2}, .wish = {.force_tty = opt->force_tty, .no_tty = opt->no_tty}};
    sigset_t old;
    int r;

    *ret = (struct exec_result){0};
    for (int i = 0; i < 3; i++)
        if (opt->closed[i])
            io.fd[i] = -1;
    r = loop_signals(&old, &c.signals, err);
    r = r < 0 ? r : stdio_init(&c.io, &io, err);
    if (r == 0) {
        log_set_sink(tty_log_sink);
        r = run_client(&c);
        stdio_done(&c.io);
        log_set_sink(NULL);
    }
    buf_done(&c.body);
    closep(&c.signals);
    return r;
}
