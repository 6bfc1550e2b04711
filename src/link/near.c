/* SPDX-License-Identifier: Apache-2.0 */
/* The near end: from the supervisor's messages with descriptors to channels, and back. */
#include "link/near.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/sock.h"

enum { TURNS_AT_THE_END = 1000000 };

/* -- to the far end -------------------------------------------------------------------------------------------------------- */

void near_answer_failure(struct near *n, int job, int r, const char *what) {
    struct init_msg msg = {.type = INIT_MSG_FAILED, .value = -r, .job = job};

    snprintf(msg.text, sizeof msg.text, "%s", what);
    sock_send(n->control, &msg, sizeof msg, NULL, 0);
}

static bool near_pull(void *arg) {
    struct near *n = arg;
    struct init_msg msg;
    int fds[LINK_CONTROL_FDS];
    size_t n_fds = LINK_CONTROL_FDS;
    long len;

    if (!n->asked)
        return near_send_start(n);
    if (!n->started || !n->speaks)
        return false;
    len = sock_recv(n->control, n->body, sizeof n->body, fds, &n_fds);
    n->speaks = len != -EAGAIN;
    if (!n->speaks)
        return false;
    if (len < (long)sizeof msg) { /* the supervisor is gone, or not ours */
        mux_fail(&n->m, -EPIPE, "the supervisor is gone");
        return false;
    }
    memcpy(&msg, n->body, sizeof msg);
    late_signal(&n->m, &msg);
    if (msg.type == INIT_MSG_GO) { /* sizes and modes go before it */
        near_tty_sync(n, true);
        mux_send_ttys(&n->m);
    }
    n->asked_open += msg.type == INIT_MSG_OPEN;
    if (msg.type == INIT_MSG_EXEC) {
        near_send_exec(n, &msg, (size_t)len, fds, n_fds);
        return true;
    }
    fd_close_all(fds, n_fds);
    mux_send(&n->m, NULL, 0, n->body, (size_t)len);
    return true;
}

/* -- from the far end ------------------------------------------------------------------------------------------------------ */

/* Files that came or come, and that no answer has named yet. */
static size_t unclaimed_files(const struct near *n) {
    size_t found = 0;

    for (size_t i = 0; i < n->m.n_live; i++) {
        const struct chan *c = &n->m.chans[n->m.live[i]];

        found += c->kind == LINK_FILE && c->awaited && !n->parked[c->id].type;
    }
    return found;
}

/* It is in our memory until the supervisor has it, so there is one for each that was asked for. */
static int open_received(const struct near *n, struct chan *c) {
    int fd;

    if (unclaimed_files(n) > n->asked_open)
        return -EPROTO;
    if (c->open.size > NEAR_FILE_MAX)
        return -EFBIG;
    fd = memfd_create("bawn-file", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)!fchmod(fd, c->open.mode & 0777);
    c->wfd = fd;
    c->held = fcntl(fd, F_DUPFD_CLOEXEC, NEAR_FDS);
    return c->held < 0 ? -errno : 0;
}

static int open_socket(struct chan *c) {
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    c->rfd = c->wfd = pair[0];
    c->io = CHAN_SOCKET;
    c->held = pair[1];
    return 0;
}

static int near_opened(void *arg, struct chan *c) {
    struct near *n = arg;

    c->awaited = c->kind == LINK_SOCKET || c->kind == LINK_TERMINAL || c->kind == LINK_FILE;
    switch (c->kind) {
    case LINK_SOCKET:
        return open_socket(c);
    case LINK_TERMINAL:
        n->terminals++;
        return near_tty_open(n, c);
    case LINK_FILE:
        return open_received(n, c);
    case LINK_CONNECTION:
        return near_accepted(n, c);
    case LINK_DATAGRAMS:
        return near_datagrams(n, c);
    case LINK_INPUT:
    case LINK_OUTPUT:
        break;
    }
    return -EPROTO; /* only we have standard streams */
}

static int on_started(struct near *n, const struct link_message *msg) {
    struct link_started s;
    int r;

    if (msg->n_channels || link_started_decode(msg->bytes, msg->len, &s) < 0)
        return -EPROTO;
    n->started = true;
    if (s.error) {
        near_answer_failure(n, 0, -(int)s.error, s.why);
        return mux_fail(&n->m, -(int)s.error, "the sandbox could not be started");
    }
    /* Also without a network, with no place: the supervisor knows then that the far end is there. */
    r = near_places(n, n->start.flags & LINK_START_NETWORK ? s.places : 0);
    return r == -EAGAIN ? -EPROTO : r;
}

/* What bawn-init may say; each with at most one descriptor, of this kind. */
static bool is_from_init(const struct init_msg *msg, const struct chan *c) {
    switch ((enum init_msg_type)msg->type) {
    case INIT_MSG_PTY:
        return c && c->kind == LINK_TERMINAL;
    case INIT_MSG_STARTED:
        return !c || c->kind == LINK_TERMINAL;
    case INIT_MSG_INSIDE:
        return !c || c->kind == LINK_SOCKET;
    case INIT_MSG_OPEN:
        return !c || c->kind == LINK_FILE || c->kind == LINK_SOCKET;
    case INIT_MSG_STOPPED:
    case INIT_MSG_EXITED:
    case INIT_MSG_FAILED:
    case INIT_MSG_LIMIT:
    case INIT_MSG_ALL:
        return !c;
    case INIT_MSG_SIGNAL:
    case INIT_MSG_GO:
    case INIT_MSG_NETWORK:
    case INIT_MSG_EXEC:
        break;
    }
    return false;
}

/* To the supervisor. A descriptor that could not be made is an error that the message has a place for, or is missing. */
static int say(struct near *n, struct init_msg *msg, struct chan *c) {
    int r;

    if (c && (c->held < 0 || (c->kind == LINK_FILE && c->end_received_error))) {
        if (msg->type == INIT_MSG_OPEN)
            msg->value = c->open.size > NEAR_FILE_MAX ? EFBIG : EIO;
        else
            msg->value = msg->type == INIT_MSG_INSIDE ? EMFILE : msg->value;
        closep(&c->held);
    }
    if (c && c->kind == LINK_FILE && c->held >= 0)
        lseek(c->held, 0, SEEK_SET);
    r = sock_send(n->control, msg, sizeof *msg, c && c->held >= 0 ? &c->held : NULL, c && c->held >= 0);
    if (r == -EAGAIN || r == -ETOOMANYREFS)
        return -EAGAIN;
    if (c) {
        closep(&c->held);
        c->awaited = false;
    }
    return r < 0 ? mux_fail(&n->m, -EPIPE, "the supervisor is gone") : 0;
}

/* The end of a run comes after its output: the far end goes on until that is sent, and the supervisor would not wait for it. */
static bool is_last(const struct init_msg *msg) {
    return msg->job == 0 && (msg->type == INIT_MSG_EXITED || msg->type == INIT_MSG_LIMIT);
}

/* c: of the answer, NULL: none. */
static int take_message(struct near *n, struct init_msg *msg, struct chan *c) {
    if (is_last(msg)) {
        n->said_last = true;
        n->last = *msg;
        return 0;
    }
    if (c && msg->type == INIT_MSG_STARTED)
        c->job = msg->job;
    if (late_park(&n->late, &n->m, msg))
        return 0;
    if (c && c->kind == LINK_FILE && !c->end_received && !c->discards) {
        n->parked[c->id] = *msg;
        return 0;
    }
    return say(n, msg, c);
}

static int near_message(void *arg, const uint8_t *bytes, size_t len) {
    struct near *n = arg;
    struct link_message got;
    int r;
    struct init_msg msg;
    struct chan *c = NULL;

    if (link_message_decode(bytes, len, &got) < 0)
        return -EPROTO;
    if (!n->started)
        return n->asked ? on_started(n, &got) : -EPROTO;
    if (got.len != sizeof msg || got.n_channels > 1)
        return -EPROTO;
    memcpy(&msg, got.bytes, sizeof msg);
    if (got.n_channels)
        c = mux_chan(&n->m, got.channels[0]);
    if ((got.n_channels && (!c || c->ours || !c->awaited || n->parked[c->id].type)) || !is_from_init(&msg, c))
        return -EPROTO;
    if (msg.type == INIT_MSG_OPEN && n->asked_open == 0)
        return -EPROTO;
    r = take_message(n, &msg, c);
    if (msg.type == INIT_MSG_OPEN && r == 0) /* else it comes again */
        n->asked_open--;
    return r == 0 && unclaimed_files(n) > n->asked_open ? -EPROTO : r;
}

static void near_gone(void *arg, struct chan *c) {
    struct near *n = arg;

    n->parked[c->id].type = 0;
}

static void near_tty(void *arg, struct chan *c, const struct link_tty *t) {
    near_tty_modes(c, t);
}

static size_t near_pull_dgram(void *arg, struct chan *c, uint8_t *to, size_t max) {
    return near_pull_datagram(c, to, max);
}

static void near_dgram(void *arg, struct chan *c, const uint8_t *bytes, size_t len) {
    near_datagram(c, bytes, len);
}

/* -- the loop -------------------------------------------------------------------------------------------------------------- */

static size_t near_want(void *arg, struct pollfd *out, int *ret_ms) {
    struct near *n = arg;
    bool sends = n->started && mux_can_send(&n->m) && !n->m.deaf;
    size_t used = 1;

    out[0] = (struct pollfd){.fd = n->control,
                             .events = (short)((sends ? POLLIN : 0) | (n->m.messages_at < n->m.messages_len ? POLLOUT : 0))};
    for (size_t i = 0; i < n->m.n_live; i++) { /* what could not be delivered */
        const struct chan *c = &n->m.chans[n->m.live[i]];

        if (c->kind == LINK_CONNECTION && c->awaited && used < LINK_EXTRA_FDS)
            out[used++] = (struct pollfd){.fd = n->place[c->open.place], .events = POLLOUT};
        if (c->kind == LINK_FILE && c->awaited && n->parked[c->id].type && (c->end_received || c->discards))
            out[0].events |= POLLOUT;
    }
    if (late_due(&n->late, &n->m))
        out[0].events |= POLLOUT;
    if (n->late.n)
        *ret_ms = LATE_LOOK_MS;
    if (n->terminals && !n->m.deaf)
        *ret_ms = NEAR_TTY_MS;
    return used;
}

static void say_parked(struct near *n, struct chan *c) {
    if (n->parked[c->id].type && (c->end_received || c->discards) && say(n, &n->parked[c->id], c) == 0)
        n->parked[c->id].type = 0;
}

static void say_late(struct near *n) {
    struct chan *c;

    while ((c = late_due(&n->late, &n->m)) && say(n, &n->late.msg[c->id], NULL) == 0)
        late_done(&n->late, c);
}

static void near_ready(void *arg, const struct pollfd *fds, size_t n_fds) {
    struct near *n = arg;

    for (size_t i = 0; i < n->m.n_live; i++) {
        struct chan *c = &n->m.chans[n->m.live[i]];

        if (c->kind == LINK_CONNECTION && c->awaited)
            near_deliver(n, c);
        if (c->kind == LINK_FILE && !c->ours)
            say_parked(n, c);
    }
    say_late(n);
    n->speaks |= n_fds && fds[0].revents & POLLIN;
    if (n->terminals)
        near_tty_sync(n, false);
    if (n_fds && fds[0].revents & (POLLHUP | POLLERR) && !(fds[0].revents & POLLIN))
        mux_fail(&n->m, -EPIPE, "the supervisor is gone");
}

static const struct mux_ops near_ops = {.opened = near_opened,
                                        .message = near_message,
                                        .pull = near_pull,
                                        .pull_datagram = near_pull_dgram,
                                        .datagram = near_dgram,
                                        .tty = near_tty,
                                        .gone = near_gone,
                                        .want = near_want,
                                        .ready = near_ready};

static bool is_draining(const struct near *n) {
    for (size_t i = 0; i < n->m.n_live; i++) {
        const struct chan *c = &n->m.chans[n->m.live[i]];

        if (c->queued && c->wfd >= 0)
            return true;
    }
    return n->late.n || n->m.messages_at < n->m.messages_len;
}

/* The stream has ended. What came is still the supervisor's, and the last word goes out when all of it is passed on. */
static void near_finish(struct near *n) {
    n->m.deaf = true;
    for (int i = 0; i < TURNS_AT_THE_END && is_draining(n) && n->m.error != -EPIPE && mux_turn(&n->m) == 0; i++) {
    }
    mux_done(&n->m); /* closes the streams, so that their ends are seen */
    fcntl(n->control, F_SETFL, O_RDWR);
    if (n->said_last)
        sock_send(n->control, &n->last, sizeof n->last, NULL, 0);
    else if (n->m.error == -EPROTO || n->m.error == -EPROTONOSUPPORT || n->m.error == -ECONNABORTED || n->m.error == -ETIMEDOUT)
        near_answer_failure(n, 0, n->m.error, n->m.why);
}

int near_init(struct near *n, int in, int out, struct err *err) {
    int r = mux_init(&n->m, LINK_NEAR, in, out, &near_ops, n);

    if (r < 0)
        return err_sys(err, r, "memory for the link");
    if (fcntl(n->control, F_SETFL, O_RDWR | O_NONBLOCK) < 0 || fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK) < 0 ||
        fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "set up the link");
    return 0;
}

int near_run(struct near *n) {
    int r;

    while (mux_turn(&n->m) == 0) {
    }
    r = n->m.error;
    near_finish(n);
    return n->said_last || r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

void near_done(struct near *n) {
    mux_done(&n->m);
    for (size_t i = 0; i < LINK_PLACES; i++)
        closep(&n->place[i]);
    for (size_t i = 0; i < 3; i++)
        closep(&n->stdio[i]);
    closep(&n->control);
    closep(&n->start_fd);
}
