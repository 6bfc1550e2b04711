/* SPDX-License-Identifier: Apache-2.0 */
/* An end of a link whose channels are sockets: for tests and fuzzers. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/mux.h"
#include "os/fd.h"

enum { RIG_MESSAGES = 64 };

struct rig {
    struct mux m;
    int stream;
    struct chan *last; /* that the other end opened */
    unsigned opened, ended, gone, messages, datagrams, ttys;
    size_t message_len[RIG_MESSAGES];
    bool busy;   /* takes no message */
    bool refuse; /* takes no channel */
    int to_send; /* messages */
    int wait_ms;
};

static inline int rig_join(struct chan *c) {
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    c->rfd = c->wfd = pair[0];
    c->io = CHAN_SOCKET;
    c->held = pair[1];
    return 0;
}

static int rig_opened(void *arg, struct chan *c) {
    struct rig *g = arg;

    g->opened++;
    g->last = c;
    return g->refuse ? -EACCES : rig_join(c);
}

static int rig_message(void *arg, const uint8_t *bytes, size_t len) {
    struct rig *g = arg;
    struct link_message msg;

    if (g->busy)
        return -EAGAIN;
    if (link_message_decode(bytes, len, &msg) < 0)
        return -EPROTO;
    if (g->messages < RIG_MESSAGES)
        g->message_len[g->messages] = msg.len;
    g->messages++;
    return 0;
}

static bool rig_pull(void *arg) {
    static char text[4000];
    struct rig *g = arg;

    if (g->to_send <= 0)
        return false;
    g->to_send--;
    mux_send(&g->m, NULL, 0, text, (size_t)(g->to_send * 37) % sizeof text);
    return true;
}

static size_t rig_pull_datagram(void *arg, struct chan *c, uint8_t *to, size_t max) {
    ssize_t n = recv(c->rfd, to, MIN_OF(max, (size_t)LINK_DATAGRAM_MAX), MSG_DONTWAIT);

    return n > 0 ? (size_t)n : 0;
}

static void rig_datagram(void *arg, struct chan *c, const uint8_t *bytes, size_t len) {
    struct rig *g = arg;

    g->datagrams++;
}

static void rig_tty(void *arg, struct chan *c, const struct link_tty *t) {
    struct rig *g = arg;

    g->ttys++;
}

static void rig_ended(void *arg, struct chan *c) {
    struct rig *g = arg;

    g->ended++;
}

static void rig_gone(void *arg, struct chan *c) {
    struct rig *g = arg;

    g->gone++;
}

static size_t rig_want(void *arg, struct pollfd *out, int *ret_ms) {
    struct rig *g = arg;

    *ret_ms = g->wait_ms;
    return 0;
}

static const struct mux_ops rig_ops = {.opened = rig_opened,
                                       .message = rig_message,
                                       .pull = rig_pull,
                                       .pull_datagram = rig_pull_datagram,
                                       .datagram = rig_datagram,
                                       .tty = rig_tty,
                                       .ended = rig_ended,
                                       .gone = rig_gone,
                                       .want = rig_want};

static inline void rig_init(struct rig *g, enum link_role role, int stream) {
    *g = (struct rig){.stream = stream};
    fcntl(stream, F_SETFL, O_RDWR | O_NONBLOCK);
    if (mux_init(&g->m, role, stream, stream, &rig_ops, g) < 0)
        BUG("no memory");
}

static inline void rig_done(struct rig *g) {
    mux_done(&g->m);
    closep(&g->stream);
}
