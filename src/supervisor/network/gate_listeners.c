/* SPDX-License-Identifier: Apache-2.0 */
/* The listeners that a gate is for: the sandbox's own, those of single ports, those that are shown inside, and those of the host. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"
#include "supervisor/helper.h"
#include "supervisor/network/gate_priv.h"

enum { REFUSED_PER_TURN = 4096 };

/* All that make a gate necessary when they become readable; -1 where there is none. */
static size_t all_listeners(const struct gatekeeper *g, int out[static GATE_LISTENERS_ALL]) {
    size_t n = 0;

    for (size_t i = 0; i < GATE_LISTENERS; i++)
        out[n++] = g->opts.listeners[i];
    for (size_t i = 0; i < GATE_NAMED_MAX; i++)
        out[n++] = g->opts.named[i];
    for (size_t i = 0; i < INSIDE_SOCKETS; i++)
        out[n++] = g->opts.inside[i];
    for (size_t i = 0; i < g->published.n; i++)
        out[n++] = g->published.v[i].fd;
    return n;
}

void gate_listeners_done(const struct gatekeeper *g) {
    int fds[GATE_LISTENERS_ALL];
    size_t n = all_listeners(g, fds);

    for (size_t i = 0; i < n; i++)
        closep(&fds[i]);
}

void gate_listeners_fill(const struct gatekeeper *g, struct helper *h) {
    static const int places[GATE_LISTENERS] = {GATE_FD_TCP4, GATE_FD_TCP6, GATE_FD_UDP4, GATE_FD_UDP6};

    for (size_t i = 0; i < GATE_LISTENERS; i++)
        h->fds[places[i]] = g->opts.listeners[i];
    for (size_t i = 0; i < GATE_PUBLISH_MAX; i++)
        h->fds[GATE_FD_PUBLISH + i] = i < g->published.n ? g->published.v[i].fd : -1;
    h->n_fds = GATE_FD_PUBLISH + g->published.n;
    for (size_t i = 0; i < GATE_NAMED_MAX; i++) {
        h->fds[GATE_FD_NAMED + i] = g->opts.named[i];
        if (g->opts.named[i] >= 0)
            h->n_fds = GATE_FD_NAMED + i + 1;
    }
    h->fds[GATE_FD_SSH] = g->opts.inside[INSIDE_SSH];
    h->fds[GATE_FD_CREDENTIAL] = g->opts.inside[INSIDE_CREDENTIAL];
    if (g->opts.inside[INSIDE_SSH] >= 0 || g->opts.inside[INSIDE_CREDENTIAL] >= 0)
        h->n_fds = GATE_FD_CREDENTIAL + 1;
    h->fds[GATE_FD_METER] = g->opts.meter;
    if (g->opts.meter)
        h->n_fds = GATE_FD_METER + 1;
}

size_t gate_listeners_poll(const struct gatekeeper *g, struct pollfd *out) {
    int fds[GATE_LISTENERS_ALL];
    size_t n_fds = all_listeners(g, fds), n = 0;

    for (size_t i = 0; i < n_fds; i++)
        if (fds[i] >= 0)
            out[n++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    return n;
}

bool gate_listeners_ready(const struct gatekeeper *g, const struct pollfd *fds, size_t n) {
    int listeners[GATE_LISTENERS_ALL];
    size_t n_listeners = all_listeners(g, listeners);

    for (size_t i = 0; i < n; i++)
        /* POLLHUP: connections are delivered, and who did it is gone: nothing comes any more */
        for (size_t k = 0; fds[i].revents && !(fds[i].revents & POLLHUP) && k < n_listeners; k++)
            if (fds[i].fd == listeners[k])
                return true;
    return false;
}

static void drop_delivered(int sock) {
    char message[1];

    for (int i = 0; i < REFUSED_PER_TURN && recv(sock, message, sizeof message, MSG_DONTWAIT) > 0; i++)
        ;
}

static void refuse_waiting(int listener) {
    for (int i = 0; listener >= 0 && i < REFUSED_PER_TURN; i++) { /* the inside may connect faster than we accept */
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && errno == EINVAL) { /* connections are delivered, and closed when the message is dropped */
            drop_delivered(listener);
            return;
        }
        if (fd < 0)
            return;
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
    }
}

void gate_listeners_refuse(const struct gatekeeper *g) {
    int fds[GATE_LISTENERS_ALL];
    size_t n = all_listeners(g, fds);

    for (size_t i = 0; i < n; i++) /* accept() fails at once for those of UDP */
        refuse_waiting(fds[i]);
}
