/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-init: PID 1 of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "init/far_fill.h"
#include "init/init.h"
#include "link/far.h"
#include "os/fd.h"
#include "os/sock.h"

enum { FD_CONTROL = 3, FD_START = 4, FD_GUARD = 5, WATCH_MS = 20, REAP_EVERY = 64 };

static int send_msg(const struct init *in, uint32_t type, int value, int extra) {
    struct init_msg msg = {.type = type, .value = value, .extra = extra};

    return sock_send(in->control, &msg, sizeof msg, NULL, 0);
}

/* Ends the sandbox. As PID 1, exiting is enough; else the descendants are ended here. */
static NORETURN void finish(const struct init *in, int status) {
    if (far_is_on()) {
        close(in->tty); /* ours is the last copy: its end can be read */
        far_finish(status);
    }
    if (in->start.flags & INIT_FLAG_NO_PIDNS)
        tree_kill_descendants();
    _exit(status);
}

static NORETURN void fail(const struct init *in, const struct err *err) {
    struct init_msg msg = {.type = INIT_MSG_FAILED, .value = -err->code};

    snprintf(msg.text, sizeof msg.text, "%.*s", (int)sizeof msg.text - 1, err->msg);
    sock_send(in->control, &msg, sizeof msg, NULL, 0);
    finish(in, EXIT_SANDBOX);
}

static int read_start(struct init *in, struct err *err) {
    const char *proxy = getenv("BAWN_PROXY"); /* spec/init-protocol.md */
    struct stat st;
    size_t len = 0;
    int r;

    if (fstat(FD_START, &st) < 0 || st.st_size <= 0 || st.st_size > INIT_START_MAX)
        return err_set(err, -EBADMSG, "bawn-init is started by bawn, not by hand");
    in->bytes = malloc((size_t)st.st_size);
    if (!in->bytes)
        return err_oom(err);
    while (len < (size_t)st.st_size) {
        ssize_t n = pread(FD_START, in->bytes + len, (size_t)st.st_size - len, (off_t)len);

        if (n <= 0)
            return err_set(err, -EBADMSG, "the start message is cut");
        len += (size_t)n;
    }
    close(FD_START);
    r = init_start_decode(in->bytes, len, &in->start);
    if (r < 0)
        return err_sys(err, r, "the start message is not understood");
    if (in->start.flags & INIT_FLAG_SOCKETS) /* for programs with a resolver of their own: it would ask by UDP */
        proxy = "http://127.0.0.1:15001";
    r = proxy ? environment_add_proxy(&in->start, proxy) : 0;
    return r < 0 ? err_sys(err, r, "the variables of the command") : 0;
}

static void on_child(int sig UNUSED) {}

/* SIGCHLD only wakes ppoll(); everything else that could stop or end us is blocked. */
static void set_signals(struct init *in) {
    struct sigaction act = {.sa_handler = on_child};
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &in->old_mask);
    sigaction(SIGCHLD, &act, NULL);
}

/* Over a byte link a thread of ours moves the bytes (link/far.h). It has no more rights than we have, and gives them up first. */
static int lock_thread(void *arg, struct err *err) {
    const struct init *in = arg;

    return lockdown(&in->start, LOCKDOWN_GUARD, err);
}

static int start_link(struct init *in, struct err *err) {
    int r = far_begin(err);

    return r < 0 ? r : far_start(lock_thread, in, err);
}

static int check_link(const struct init *in, struct err *err) {
    if (!far_is_on() || !(in->start.flags & (INIT_FLAG_GUARD | INIT_FLAG_NO_PIDNS | INIT_FLAG_SOCKETS)))
        return 0;
    return err_set(err, -EOPNOTSUPP,
                   "direct mode needs a sandbox on this machine's kernel; use a mode that works on a copy (--workspace sync)");
}

/* Sent before we were started. */
static int receive_gate(const struct init *in, int ret[static GUARD_GATE_FDS], struct err *err) {
    struct init_msg msg = {0};
    size_t n_fds = GUARD_GATE_FDS;

    if (!(in->start.flags & INIT_FLAG_SOCKETS))
        return 0;
    if (sock_recv(in->control, &msg, sizeof msg, ret, &n_fds) != (long)sizeof msg || msg.type != INIT_MSG_NETWORK || n_fds < 1)
        return err_set(err, -EPROTO, "no way to the gate came with the start message");
    return 0;
}

static int set_up(struct init *in, struct err *err) {
    bool pid1 = !(in->start.flags & INIT_FLAG_NO_PIDNS), guard = in->start.flags & (INIT_FLAG_GUARD | INIT_FLAG_SOCKETS);
    int gate[GUARD_GATE_FDS] = {-1, -1, -1}, r = 0;

    /* Killing us ends the sandbox only where we are PID 1; elsewhere the closed socket tells us to end it. */
    prctl(pid1 ? PR_SET_PDEATHSIG : PR_SET_CHILD_SUBREAPER, pid1 ? SIGKILL : 1);
    set_signals(in);
    if (setsid() < 0 && getsid(0) != getpid()) /* container runtimes made us the leader of one */
        return err_sys(err, -errno, "own session");
    r = receive_gate(in, gate, err);
    if (r == 0 && in->start.flags & INIT_FLAG_TTY)
        r = terminal_open(in, err);
    if (r == 0 && guard)
        r = guard_new(&in->start, FD_CONTROL, FD_GUARD, gate, &in->guard, err);
    if (r == 0 && far_is_on())
        r = far_lock(err);
    /* The guard does what the command asks for, so it may do no more than the command. Where there is no pid namespace the
     * command adds a Landlock domain of its own below this one, and so cannot signal us. */
    return r < 0 || (!pid1 && !guard) ? r : lockdown(&in->start, LOCKDOWN_GUARD, err);
}

/* Reaps everything; returns true when the command itself has ended. */
static bool reap(struct init *in, int *ret_status) {
    bool ended = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != in->command) {
            jobs_child(in, pid, status);
        } else if (WIFSTOPPED(status)) {
            in->stopped = true;
            send_msg(in, INIT_MSG_STOPPED, WSTOPSIG(status), 0);
        } else {
            *ret_status = status;
            ended = true;
        }
    }
    in->childless = pid < 0; /* ECHILD */
    return ended;
}

static void pass_signal(struct init *in, const struct init_msg *msg) {
    pid_t front = msg->extra == INIT_SIGNAL_FRONT && in->tty >= 0 ? tcgetpgrp(in->tty) : -1;
    pid_t to = front > 1 ? -front : msg->extra ? -in->command : in->command;

    if (msg->value == SIGCONT)
        terminal_foreground(in->tty, in->command);
    kill(to, msg->value);
    if (in->stopped && signal_is_ending(msg->value))
        kill(to, SIGCONT);
    if (msg->value == SIGCONT || signal_is_ending(msg->value))
        in->stopped = false;
}

static void read_control(struct init *in) {
    struct init_msg msg;
    long n = sock_recv(in->control, &msg, sizeof msg, NULL, NULL);

    if (n == -EAGAIN)
        return;
    if (n != (long)sizeof msg) /* the supervisor is gone, or not ours */
        finish(in, EXIT_SANDBOX);
    if (msg.type == INIT_MSG_SIGNAL)
        pass_signal(in, &msg);
    else if (msg.type == INIT_MSG_INSIDE)
        inside_answer(in, &msg);
    if (msg.type != INIT_MSG_ALL)
        return;
    resident_signal_all(in, msg.value);
    send_msg(in, INIT_MSG_ALL, msg.value, 0);
}

/* A supervisor that is slow makes us keep what it must know, up to a point: then we read nothing until it takes some. */
static short control_events(const struct init *in) {
    return (short)((in->outbox.n < INIT_OUT_MAX ? POLLIN : 0) | (in->outbox.n ? POLLOUT : 0));
}

static void on_control(struct init *in, short events) {
    if (!(in->start.flags & INIT_FLAG_RESIDENT)) {
        read_control(in);
        return;
    }
    if (events & (POLLOUT | POLLHUP | POLLERR))
        out_flush(in);
    if (events & POLLIN)
        resident_read(in);
    else if (events & (POLLHUP | POLLERR))
        in->outbox.broken = true;
}

static uint64_t now_ms(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool is_watched(const struct init *in) {
    return (in->start.watch_memory || room_watch_pids(in)) && !in->childless;
}

/* Once per tick, however often the guard is asked meanwhile: looking at every process is slow. *last_ms is 0 while nothing runs; the first
 * look is a tick after something does, so that no short command waits for it. */
static void watch(struct init *in, uint64_t *last_ms) {
    uint64_t now;

    if (!is_watched(in))
        return;
    now = now_ms();
    *last_ms = *last_ms ? *last_ms : now;
    if (now - *last_ms < WATCH_MS)
        return;
    *last_ms = now;
    room_look(in);
    if (!in->start.watch_memory || tree_memory((in->start.flags & INIT_FLAG_NO_PIDNS) != 0) <= in->start.watch_memory)
        return;
    send_msg(in, INIT_MSG_LIMIT, INIT_LIMIT_MEMORY, 0);
    finish(in, EXIT_SANDBOX);
}

enum { POLL_CONTROL, POLL_HOLDERS, POLL_GUARD, POLL_STAGED, POLL_LISTENERS, POLL_MAX = POLL_LISTENERS + GUARD_POLL_MAX };

/* NULL: for ever. */
static const struct timespec *time_to_sleep(const struct init *in, struct timespec *t) {
    int ms = in->guard ? guard_timeout(in->guard) : -1;

    if (is_watched(in) && (ms < 0 || ms > WATCH_MS))
        ms = WATCH_MS;
    *t = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    return ms < 0 ? NULL : t;
}

/* Until the command has ended (its status), or the supervisor of a persistent sandbox is gone. */
static int serve(struct init *in) {
    struct pollfd p[POLL_MAX];
    sigset_t waiting;
    uint64_t watched = 0;
    struct timespec sleep_;
    int status = 0;
    bool ended = reap(in, &status);

    sigfillset(&waiting);
    sigdelset(&waiting, SIGCHLD);
    for (unsigned turn = 1; !ended && !in->outbox.broken; turn++) {
        size_t listeners = in->guard ? guard_poll(in->guard, p + POLL_LISTENERS) : 0;
        int n;

        p[POLL_CONTROL] = (struct pollfd){.fd = in->control, .events = control_events(in)};
        p[POLL_HOLDERS] = (struct pollfd){.fd = in->held[0], .events = POLLIN};
        p[POLL_GUARD] = (struct pollfd){.fd = in->guard ? guard_socket(in->guard) : -1};
        p[POLL_STAGED] = (struct pollfd){.fd = in->guard ? guard_staged(in->guard) : -1, .events = POLLIN};
        n = ppoll(p, POLL_LISTENERS + listeners, time_to_sleep(in, &sleep_), &waiting);
        if (n < 0 && errno != EINTR) { /* more listeners than our limit of descriptors: calls would wait for ever */
            struct err err = {0};

            err_sys(&err, -errno, "wait for what the command does");
            fail(in, &err);
        }
        if (p[POLL_GUARD].revents)
            guard_orphan(in->guard);
        if (in->guard)
            guard_handle(in->guard, p + POLL_LISTENERS, listeners);
        if (p[POLL_HOLDERS].revents)
            holder_read(in);
        if (p[POLL_CONTROL].revents)
            on_control(in, p[POLL_CONTROL].revents);
        watch(in, &watched);
        /* SIGCHLD interrupts only a poll that has nothing else to say, so under load it is looked for. */
        if (n <= 0 || p[POLL_CONTROL].revents || turn % REAP_EVERY == 0)
            ended = reap(in, &status);
        watched = in->childless ? 0 : watched;
    }
    if (in->guard)
        guard_settle(in->guard);
    return status;
}

/* Keys that came before the command had the terminal made signals for us, who were the foreground until then: they are its. */
static void pass_keys(const struct init *in) {
    static const int keys[] = {SIGINT, SIGQUIT, SIGTSTP};
    sigset_t pending;

    if (in->tty < 0 || sigpending(&pending) < 0)
        return;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (sigismember(&pending, keys[i]) == 1)
            kill(-in->command, keys[i]);
}

/* Our copies of the command's descriptors would keep its pipes open. */
static void forget_stdio(void) {
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
}

/* The one command of a run. 0, or EXITED was sent already. */
static int start_command(struct init *in, struct err *err) {
    static const uint32_t flag[3] = {INIT_FLAG_TTY_STDIN, INIT_FLAG_TTY_STDOUT, INIT_FLAG_TTY_STDERR};
    const struct init_start *s = &in->start;
    struct command c = {
        .argv = s->argv, .argc = s->argc, .envp = s->envp, .cwd = s->cwd, .search_path = s->search_path, .tty = in->tty};
    int exec_errno = 0, r;

    for (int i = 0; i < 3; i++)
        c.fds[i] = s->flags & flag[i] ? in->tty : -1;
    r = command_start(in, &c, &in->command, &exec_errno, err);
    if (r >= 0)
        forget_stdio();
    if (r > 0)
        send_msg(in, INIT_MSG_EXITED, exec_errno, 1);
    return r;
}

static NORETURN void run_command(struct init *in, struct err *err) {
    int status, r = start_command(in, err);

    if (r < 0)
        fail(in, err);
    if (r > 0)
        finish(in, EXIT_NOTFOUND);
    for (size_t i = 0; i < in->n_early; i++)
        pass_signal(in, &in->early[i]);
    pass_keys(in);
    status = serve(in);
    send_msg(in, INIT_MSG_EXITED, status, room_ran_out(in, status));
    finish(in, 0);
}

static NORETURN void run_resident(struct init *in, struct err *err) {
    if (resident_begin(in, err) < 0)
        fail(in, err);
    serve(in);
    finish(in, 0);
}

/* On another machine, before the sandbox begins or after its end. What it says reaches the supervisor through the engine. */
static NORETURN void fill_container(int argc, char **argv, struct err *err) {
    far_fill_main(argc, argv, err);
    dprintf(STDERR_FILENO, "bawn-init: %s\n", err->msg);
    _exit(EXIT_SANDBOX);
}

int main(int argc, char **argv) {
    struct init in = {.control = FD_CONTROL, .tty = -1, .null = -1, .held = {-1, -1}};
    struct err err = {0};

    prctl(PR_SET_DUMPABLE, 0);
    signals_of_libc_default();
    if (argc > 1 && str_eq(argv[1], "--far"))
        fill_container(argc - 2, argv + 2, &err);
    if (argc > 2) /* bawn-enter made the listeners */
        far_net_inherit((uint32_t)strtoul(argv[2], NULL, 10));
    if (argc > 1 && str_eq(argv[1], "--link") && start_link(&in, &err) < 0)
        _exit(EXIT_SANDBOX); /* the near end knows why, if there is one */
    fcntl(FD_CONTROL, F_SETFD, FD_CLOEXEC);
    fcntl(FD_START, F_SETFD, FD_CLOEXEC);
    if (read_start(&in, &err) < 0)
        fail(&in, &err);
    if (in.start.flags & INIT_FLAG_GUARD)
        fcntl(FD_GUARD, F_SETFD, FD_CLOEXEC);
    if (check_link(&in, &err) < 0 || set_up(&in, &err) < 0)
        fail(&in, &err);
    if (in.start.flags & INIT_FLAG_RESIDENT)
        run_resident(&in, &err);
    run_command(&in, &err);
}
