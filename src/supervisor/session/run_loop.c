/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of `bawn run`: signals, messages of bawn-init, streams, time. */
#include "supervisor/session/run_loop.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "os/sock.h"
#include "proto/initmsg.h"
#include "supervisor/terminal/tty.h"

enum { GRACE_MS = 1000, PARENT_GRACE_MS = 5000 };

/* The first ones are passed on. SIGWINCH is handled here; SIGTTOU, SIGTTIN and SIGPIPE must not end or stop us. */
static const int watched[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
                              SIGTSTP, SIGCONT, SIGWINCH, SIGTTOU, SIGTTIN, SIGPIPE};
enum { N_FORWARDED = 9 };

int loop_signals(sigset_t *ret_old, int *ret_fd, struct err *err) {
    int fd = sigfd_open(watched, ARRAY_LEN(watched), ret_old);

    if (fd < 0)
        return err_sys(err, fd, "take signals");
    *ret_fd = fd;
    return 0;
}

static void send_init(const struct loop *l, uint32_t type, int sig, bool group) {
    struct init_msg msg = {.type = type, .value = sig, .extra = group};

    sock_send(l->session->sandbox.control, &msg, sizeof msg, NULL, 0);
}

/* A signal of the terminal (SI_KERNEL) goes to the whole job, as it would have; one that a process sent, to the command. */
static int on_signal(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    struct signalfd_siginfo info;
    struct loop *l = arg;

    while (sigfd_next(l->signals, &info)) {
        int sig = (int)info.ssi_signo;

        if (sig == SIGWINCH)
            stdio_resize(l->io);
        if (sig == SIGCONT)
            stdio_resume(l->io); /* another process stopped us; the shell has reset the terminal since */
        if (sig == SIGTSTP)
            l->stopping = true;
        l->io->impatient |= loop_is_end(info.ssi_signo);
        for (size_t i = 0; i < N_FORWARDED; i++)
            if (watched[i] == sig)
                send_init(l, INIT_MSG_SIGNAL, sig, info.ssi_code == SI_KERNEL);
    }
    return 0;
}

/* As the shell expects it, but only if a user sees it or asked for it: the command can stop itself at any time. While we are stopped
 * nothing is watched (late hidden files, disk, time), so everything else inside is stopped first. */
static void on_stopped(struct loop *l, int sig) {
    if (!TAKE(l->stopping, false) && !tty_has_us())
        return;
    if (l->stop_signal == 0)
        send_init(l, INIT_MSG_ALL, SIGSTOP, false);
    l->stop_signal = sig;
}

static void on_all_stopped(struct loop *l) {
    stdio_suspend(l->io);
    tty_stop_job(TAKE(l->stop_signal, 0));
    stdio_resume(l->io);
    send_init(l, INIT_MSG_ALL, SIGCONT, false);
    send_init(l, INIT_MSG_SIGNAL, SIGCONT, true);
}

static void on_exited(struct loop *l, const struct init_msg *msg) {
    struct run_result *r = l->result;

    l->ended = true;
    r->hit[RUN_LIMIT_PRIVATE] |= (msg->extra & INIT_EXITED_FULL) != 0;
    r->hit[RUN_LIMIT_PIDS] |= (msg->extra & INIT_EXITED_PIDS) != 0;
    if (msg->extra == INIT_EXITED_NOEXEC) {
        r->exec_errno = msg->value;
        r->status = err_exec_status(msg->value);
        return;
    }
    r->started = true;
    r->signal = WIFSIGNALED(msg->value) ? WTERMSIG(msg->value) : 0;
    r->status = process_exit_status(msg->value);
}

static int on_pty(struct loop *l, int master) {
    struct init_msg go = {.type = INIT_MSG_GO};
    int r;

    l->io->modes.external = l->session->sandbox.bytes;
    r = stdio_attach_master(l->io, master, l->err);
    if (r < 0)
        return r;
    stdio_start(l->io);
    r = sock_send(l->session->sandbox.control, &go, sizeof go, NULL, 0);
    return r < 0 ? err_sys(l->err, r, "start the command") : 0;
}

/* bawn-init has ended without a message: the kernel, or another process, killed it. */
static void on_silence(struct loop *l) {
    l->ended = true;
    l->result->started = true;
    l->result->signal = SIGKILL;
    l->result->status = 128 + SIGKILL;
}

static int on_control(void *arg, const struct pollfd *polled UNUSED, size_t n_polled UNUSED) {
    struct loop *l = arg;
    struct init_msg msg;
    CLEANUP(closep) int fd = -1;
    size_t n_fds = 1;
    long n = sock_recv(l->session->sandbox.control, &msg, sizeof msg, &fd, &n_fds);

    if (n != (long)sizeof msg) {
        l->session->sandbox.silent = true;
        on_silence(l);
        return 0;
    }
    msg.text[sizeof msg.text - 1] = 0;
    switch (msg.type) {
    case INIT_MSG_PTY:
        return fd >= 0 ? on_pty(l, TAKE_FD(fd)) : err_set(l->err, -EPROTO, "bawn-init sent no terminal");
    case INIT_MSG_STOPPED:
        on_stopped(l, msg.value);
        break;
    case INIT_MSG_EXITED:
        on_exited(l, &msg);
        break;
    case INIT_MSG_LIMIT:
        l->result->hit[RUN_LIMIT_MEMORY] = true;
        on_silence(l);
        break;
    case INIT_MSG_FAILED:
        l->failed = true;
        return err_set(l->err, -msg.value, "cannot sandbox: %s", msg.text);
    case INIT_MSG_INSIDE:
        if (l->session->network.gate)
            gatekeeper_inside(l->session->network.gate, (uint32_t)msg.extra, msg.value, TAKE_FD(fd));
        break;
    case INIT_MSG_ALL:
        if (l->stop_signal && msg.value == SIGSTOP)
            on_all_stopped(l);
        break;
    default:
        break;
    }
    return 0;
}

/* Asks politely, then kills the sandbox's PID 1 and with it everything. */
static void end_politely(struct loop *l, uint64_t grace_ms) {
    uint64_t at = clock_ms() + grace_ms;

    send_init(l, INIT_MSG_SIGNAL, SIGTERM, true);
    send_init(l, INIT_MSG_SIGNAL, SIGCONT, true);
    l->kill_at_ms = l->kill_at_ms ? MIN_OF(l->kill_at_ms, at) : at;
}

static int on_parent(void *arg, const struct pollfd *fds UNUSED, size_t n_fds UNUSED) {
    struct loop *l = arg;
    char what = RUN_PARENT_END;
    ssize_t n = recv(l->parent, &what, 1, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        l->parent = 0;
    if (what == RUN_PARENT_KILL)
        on_silence(l);
    else
        end_politely(l, PARENT_GRACE_MS);
    return 0;
}

bool loop_is_end(uint32_t sig) {
    return sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT;
}

bool loop_asked_to_end(int signals) {
    struct signalfd_siginfo info;

    while (sigfd_next(signals, &info))
        if (loop_is_end(info.ssi_signo))
            return true;
    return false;
}

void loop_drain(struct loop *l) {
    stdio_finish(l->io);
    while (stdio_drain(l->io, l->signals) == 1)
        if (loop_asked_to_end(l->signals))
            return;
}

static void want_parent(struct evloop *e, void *arg) {
    const struct loop *l = arg;

    evloop_want(e, l->parent > 0 ? l->parent : -1, POLLIN);
}

static void want_streams(struct evloop *e, void *arg) {
    const struct loop *l = arg;
    struct pollfd *p = evloop_slots(e, STDIO_POLL_MAX);

    if (p)
        evloop_give_back(e, STDIO_POLL_MAX - stdio_poll_fds(l->io, p));
    evloop_wake_in(e, stdio_timeout_ms(l->io));
}

static int on_streams(void *arg, const struct pollfd *fds, size_t n) {
    const struct loop *l = arg;

    stdio_handle(l->io, fds, n);
    return 0;
}

static void want_tick(struct evloop *e, void *arg) {
    const struct loop *l = arg;

    evloop_wake_at(e, l->kill_at_ms);
}

static int on_turn(void *arg, const struct pollfd *fds UNUSED, size_t n UNUSED) {
    static const enum run_limit which[] = {
        [SESSION_TIME] = RUN_LIMIT_TIME, [SESSION_DISK] = RUN_LIMIT_DISK, [SESSION_TMP] = RUN_LIMIT_PRIVATE};
    enum session_limit reached;
    struct err err = {0};
    struct loop *l = arg;

    if (!l->ended && session_settle(l->session, &err) < 0) { /* what cannot be enforced ends the run */
        log_err(&err);
        on_silence(l);
        l->result->status = EXIT_SANDBOX;
    }
    reached = session_check(l->session);
    if (reached != SESSION_WITHIN) {
        l->result->hit[which[reached]] = true;
        end_politely(l, GRACE_MS);
    }
    if (l->kill_at_ms && clock_ms() >= l->kill_at_ms) {
        l->kill_at_ms = 0;
        on_silence(l);
    }
    return 0;
}

int loop_run(struct loop *l) {
    struct evloop_source sources[] = {
        {.fd = l->signals, .events = POLLIN, .ready = on_signal, .arg = l},
        {.prepare = want_parent, .ready = on_parent, .arg = l},
        {.prepare = want_streams, .ready = on_streams, .each_turn = true, .arg = l},
        {.prepare = session_want, .ready = session_ready, .each_turn = true, .arg = l->session},
        {.fd = l->session->sandbox.control, .events = POLLIN, .ready = on_control, .arg = l},
        {.prepare = want_tick, .ready = on_turn, .each_turn = true, .arg = l},
    };
    CLEANUP(evloop_done) struct evloop e = EVLOOP_INIT;
    int r = evloop_add_all(&e, sources, ARRAY_LEN(sources));

    while (r == 0 && !l->ended)
        r = evloop_turn(&e);
    return r < 0 && !l->err->msg[0] ? err_sys(l->err, r, "wait for the command") : r;
}
