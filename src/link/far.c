/* SPDX-License-Identifier: Apache-2.0 */
/* The far end: from channels to the descriptors that bawn-init is used to, and back. */
#include "link/far_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"

enum { FD_FREE = 6, TTY_MS = 50, PUMP_STACK = 256 * 1024, PIPE_SIZE = 256 * 1024 };

struct far_lock_answer {
    int result;
    struct err err;
};

struct far far; /* one link to a process, and no memory is taken for it */

bool far_is_on(void) {
    return far.on;
}

int far_thread(void) {
    return far.thread;
}

/* -- channels that the near end opens -------------------------------------------------------------------------------------- */

static int open_pipe(struct chan *c, bool input) {
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    c->held = ends[input ? 0 : 1];
    *(input ? &c->wfd : &c->rfd) = ends[input ? 1 : 0];
    c->io = CHAN_NONBLOCK;
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE); /* more for each turn; the kernel may refuse */
    return fcntl(ends[input ? 1 : 0], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_memory(struct chan *c) {
    if (c->open.size > INIT_START_MAX)
        return -EFBIG;
    c->wfd = memfd_create("bawn-link", MFD_CLOEXEC);
    c->held = c->wfd < 0 ? -1 : fcntl(c->wfd, F_DUPFD_CLOEXEC, FAR_FD_OURS);
    return c->held < 0 ? -errno : 0;
}

static int far_opened(void *arg, struct chan *c) {
    c->awaited = true;
    if (c->kind == LINK_INPUT || c->kind == LINK_OUTPUT)
        return open_pipe(c, c->kind == LINK_INPUT);
    return c->kind == LINK_FILE ? open_memory(c) : -EPROTO;
}

/* -- messages -------------------------------------------------------------------------------------------------------------- */

static void refuse_exec(const struct init_msg *msg) {
    struct init_msg no = {.type = INIT_MSG_FAILED, .value = EMFILE, .job = msg->job};

    snprintf(no.text, sizeof no.text, "too many open files in the sandbox's PID 1");
    mux_send(&far.m, NULL, 0, &no, sizeof no);
}

static void drop_fds(const struct link_message *got) {
    for (size_t i = 0; i < got->n_channels; i++) {
        struct chan *c = mux_chan(&far.m, got->channels[i]);

        if (c && !c->ours && c->awaited) {
            closep(&c->held);
            c->awaited = false;
        }
    }
}

static void note_job(const struct link_message *got, const struct init_msg *msg) {
    for (size_t i = 0; msg->type == INIT_MSG_EXEC && i < got->n_channels; i++) {
        struct chan *c = mux_chan(&far.m, got->channels[i]);

        if (c && c->kind == LINK_OUTPUT)
            c->job = msg->job;
    }
}

/* -EAGAIN: a file is not whole yet. -EMFILE: one of them could not be made. */
static int find_fds(const struct link_message *got, int fds[static LINK_CONTROL_FDS]) {
    int r = 0;

    for (size_t i = 0; i < got->n_channels; i++) {
        const struct chan *c = mux_chan(&far.m, got->channels[i]);

        if (!c || c->ours || !c->awaited)
            return -EPROTO;
        if (c->held < 0 || c->end_received_error)
            r = -EMFILE;
        else if (c->kind == LINK_FILE && !c->end_received && !c->discards && r == 0)
            r = -EAGAIN;
        fds[i] = c->held;
    }
    return r;
}

static int far_message(void *arg, const uint8_t *bytes, size_t len) {
    struct link_message got;
    struct init_msg msg;
    int fds[LINK_CONTROL_FDS];
    int r;

    if (link_message_decode(bytes, len, &got) < 0)
        return -EPROTO;
    if (!far.begun)
        return far_on_start(&got);
    if (got.len < sizeof msg)
        return -EPROTO;
    memcpy(&msg, got.bytes, sizeof msg);
    r = find_fds(&got, fds);
    if (r == -EMFILE && !mux_can_send(&far.m))
        return -EAGAIN;
    if (r == -EMFILE)
        refuse_exec(&msg);
    else if (r == 0 && far.init >= 0)
        r = sock_send(far.init, got.bytes, got.len, fds, got.n_channels);
    if (r == -EAGAIN || r == -EPROTO)
        return r;
    note_job(&got, &msg);
    late_signal(&far.m, &msg);
    drop_fds(&got);
    return 0; /* a bawn-init that does not listen any more is about to end */
}

/* What the master, the connection or the file of a message becomes. */
static int describe(int fd, struct link_open *ret) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    *ret = (struct link_open){.kind = LINK_TERMINAL};
    if (S_ISSOCK(st.st_mode))
        ret->kind = LINK_SOCKET;
    else if (S_ISREG(st.st_mode))
        *ret = (struct link_open){.kind = LINK_FILE, .mode = st.st_mode & 0777, .size = (uint64_t)st.st_size};
    else if (!S_ISCHR(st.st_mode))
        return -EOPNOTSUPP; /* a folder has no meaning at the other end */
    return 0;
}

static int export_fd(int fd, int job, uint16_t *ret) {
    CLEANUP(closep) int owned = fd;
    struct link_open o;
    struct chan *c;
    int r = describe(owned, &o);

    r = r < 0 ? r : mux_open(&far.m, &o, &c);
    if (r < 0)
        return r;
    if (o.kind == LINK_TERMINAL && fcntl(owned, F_SETFL, O_RDWR | O_NONBLOCK) == 0)
        far.terminals++;
    c->writer = o.kind == LINK_TERMINAL && !far_tty_signals(owned) ? far_tty_write : NULL;
    c->tag = far.out.job;
    c->io = o.kind == LINK_SOCKET ? CHAN_SOCKET : CHAN_NONBLOCK;
    c->rfd = owned;
    c->wfd = o.kind == LINK_FILE ? -1 : owned;
    (void)TAKE_FD(owned);
    c->job = job;
    *ret = c->id;
    return 0;
}

bool far_key(const struct chan *c, int sig) {
    const struct init_msg msg = {.type = INIT_MSG_SIGNAL, .value = sig, .extra = INIT_SIGNAL_FRONT, .job = c->tag};

    return far.init < 0 || sock_send(far.init, &msg, sizeof msg, NULL, 0) != -EAGAIN;
}

static bool far_pull(void *arg) {
    int fd = -1, r = 0;
    uint16_t channel;
    size_t n = 1;
    long len;

    if (far.init < 0 || !far.begun || !far.speaks)
        return false;
    len = sock_recv(far.init, &far.out, sizeof far.out, &fd, &n);
    far.speaks = len != -EAGAIN;
    if (!far.speaks)
        return false;
    if (len != (long)sizeof far.out) { /* bawn-init is done */
        closep(&far.init);
        far.finishing = true;
        return false;
    }
    if (n)
        r = export_fd(fd, far.out.type == INIT_MSG_STARTED ? far.out.job : 0, &channel);
    if (late_park(&far.late, &far.m, &far.out))
        return true;
    if (r < 0 && (far.out.type == INIT_MSG_OPEN || far.out.type == INIT_MSG_INSIDE))
        far.out.value = -r;
    mux_send(&far.m, &channel, n && r == 0, &far.out, sizeof far.out);
    return true;
}

static bool far_pull_late(void *arg) {
    struct chan *c = late_due(&far.late, &far.m);

    if (!c)
        return false;
    mux_send(&far.m, NULL, 0, &far.late.msg[c->id], sizeof(struct init_msg));
    late_done(&far.late, c);
    return true;
}

/* -- the thread ------------------------------------------------------------------------------------------------------------ */

static size_t far_want(void *arg, struct pollfd *out, int *ret_ms) {
    size_t n = 2;

    out[0] = (struct pollfd){.fd = far.begun && mux_can_send(&far.m) ? far.init : -1, .events = POLLIN};
    if (far.m.messages_at < far.m.messages_len && far.init >= 0) {
        out[0].fd = far.init;
        out[0].events |= POLLOUT;
    }
    out[1] = (struct pollfd){.fd = far.begun ? far.locks[0] : -1, .events = POLLIN};
    if (far.begun && mux_flushed(&far.m) && !far.finishing)
        n += far_net_want(&far.net, out + n);
    if (far.late.n)
        *ret_ms = LATE_LOOK_MS;
    if (far.terminals)
        *ret_ms = TTY_MS;
    return n;
}

static void lock_down(void) {
    struct far_lock_answer a = {.err = {0}};
    char c;

    if (read(far.locks[0], &c, 1) != 1)
        return;
    a.result = far.lock(far.arg, &a.err);
    (void)!write(far.answers[1], &a, sizeof a);
    closep(&far.locks[0]); /* once: in gVisor a command can open the pipes of PID 1 */
    closep(&far.answers[1]);
}

static void far_ready(void *arg, const struct pollfd *fds, size_t n) {
    far.speaks |= n && fds[0].revents & (POLLIN | POLLHUP | POLLERR);
    if (n > 1 && fds[1].revents & POLLIN)
        lock_down();
    if (n > 2)
        far_net_accept(&far.m, &far.net, fds + 2, n - 2);
    if (far.terminals)
        far.terminals = far_tty_sync(&far.m);
}

static void far_tty(void *arg, struct chan *c, const struct link_tty *t) {
    far_tty_set(c, t);
}

static size_t far_pull_datagram(void *arg, struct chan *c, uint8_t *to, size_t max) {
    return far_net_pull(c, to, max);
}

static void far_datagram(void *arg, struct chan *c, const uint8_t *bytes, size_t len) {
    far_net_datagram(c, bytes, len);
}

static const struct mux_ops far_ops = {.opened = far_opened,
                                       .message = far_message,
                                       .pull = far_pull,
                                       .pull_late = far_pull_late,
                                       .pull_datagram = far_pull_datagram,
                                       .datagram = far_datagram,
                                       .tty = far_tty,
                                       .want = far_want,
                                       .ready = far_ready};

/* Output is sent to its end; connections need not be. */
static bool is_sent(void) {
    for (size_t i = 0; i < far.m.n_live; i++) {
        const struct chan *c = &far.m.chans[far.m.live[i]];

        if ((c->kind == LINK_OUTPUT || c->kind == LINK_TERMINAL) && !c->end_sent)
            return false;
    }
    return mux_flushed(&far.m);
}

static void *pump(void *arg) {
    int r = 0;

    far.thread = (int)syscall(SYS_gettid);
    while (r == 0 && !(far.finishing && is_sent())) {
        if (far.finishing)
            far_tty_end(&far.m);
        r = mux_turn(&far.m);
    }
    _exit(r < 0 ? EXIT_SANDBOX : far.status); /* of PID 1, and so the end of everything inside */
}

/* -- called by bawn-init --------------------------------------------------------------------------------------------------- */

/* The stream to high numbers, and the low ones taken until bawn-init's own descriptors are there. */
static int make_room(int *ret_in, int *ret_out, struct err *err) {
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FAR_FD_OURS), out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, FAR_FD_OURS);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (in < 0 || out < 0 || null < 0)
        return err_sys(err, -errno, "bawn-init --link needs the stream on 0 and 1");
    for (int i = 0; i < FD_FREE; i++)
        if (i != null && dup3(null, i, i < 3 ? 0 : O_CLOEXEC) < 0)
            return err_sys(err, -errno, "arrange descriptors");
    if (null >= FD_FREE)
        close(null);
    if (fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK) < 0 || fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "set up the link");
    *ret_in = in;
    *ret_out = out;
    return 0;
}

int far_begin(struct err *err) {
    int in = -1, out = -1, r = make_room(&in, &out, err);
    sigset_t pipe_only, before;

    far.init = -1;
    if (r < 0)
        return r;
    if (pipe2(far.locks, O_CLOEXEC) < 0 || pipe2(far.answers, O_CLOEXEC) < 0)
        return err_sys(err, -errno, "set up the link");
    r = mux_init(&far.m, LINK_FAR, in, out, &far_ops, &far);
    if (r < 0)
        return err_sys(err, r, "memory for the link");
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_only, &before); /* not ignored: commands would inherit that */
    while (r == 0 && !far.begun)
        r = mux_turn(&far.m);
    for (int i = 0; i < 1000 && far.m.error && !mux_flushed(&far.m); i++) /* the near end should hear why */
        if (poll(&(struct pollfd){.fd = out, .events = POLLOUT}, 1, 1000) <= 0 || mux_write(&far.m) < 0)
            break;
    far.on = r == 0;
    if (far.on)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return r < 0 ? err_set(err, r, "%s", far.m.why) : 0;
}

int far_start(int (*lock)(void *arg, struct err *err), void *arg, struct err *err) {
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int r;

    far.lock = lock;
    far.arg = arg;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* all signals are bawn-init's */
    r = pthread_attr_init(&attr);
    r = r ? r : pthread_attr_setstacksize(&attr, PUMP_STACK);
    r = r ? r : pthread_create(&thread, &attr, pump, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r ? err_sys(err, -r, "start the link's thread") : 0;
}

int far_lock(struct err *err) {
    struct far_lock_answer a = {.result = -EIO};

    if (write(far.locks[1], "l", 1) != 1 || fd_read_full(far.answers[0], &a, sizeof a) != (ssize_t)sizeof a)
        return err_set(err, -EIO, "the link's thread does not answer");
    closep(&far.locks[1]);
    closep(&far.answers[0]);
    if (a.result < 0)
        *err = a.err;
    return a.result;
}

void far_finish(int status) {
    far.status = status;
    kill(-1, SIGKILL); /* from PID 1: all others */
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    for (int i = 0; i <= FAR_FD_CONTROL; i++) /* ours are the last copies; the thread sees that the control socket is closed */
        close(i);
    for (;;)
        pause();
}
