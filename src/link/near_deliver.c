/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and datagrams that were accepted inside, to whom a listener would have had them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/network/network.h"
#include "link/near.h"
#include "os/fd.h"
#include "os/sock.h"

static_assert((int)LINK_PLACES_NETWORK == (int)NETWORK_FDS_MAX, "a place for each");

enum { WITHOUT_RULES = 1 << NETWORK_FDS_MAX };

static int make_place(struct near *n, unsigned i, struct listeners *theirs) {
    int pair[2], r = sock_pair(pair);

    if (r < 0)
        return r;
    n->place[i] = pair[0];
    theirs->fds[i] = pair[1];
    return fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK) < 0 ? -errno : 0;
}

int near_places(struct near *n, uint32_t places) {
    struct listeners theirs = LISTENERS_INIT;
    struct err err = {0};
    int r = 0;

    if (places & ~(uint32_t)(WITHOUT_RULES * 2 - 1))
        return -EPROTO;
    theirs.has = places & WITHOUT_RULES ? 0 : NETWORK_EVERY_PORT;
    for (unsigned i = 0; r == 0 && i < NETWORK_FDS_MAX; i++)
        if (places & 1u << i)
            r = make_place(n, i, &theirs);
    r = r < 0 ? r : network_send(n->control, &theirs, &err);
    network_done(&theirs);
    return r;
}

int near_accepted(struct near *n, struct chan *c) {
    int pair[2];

    if (!n->started || n->place[c->open.place] < 0)
        return -EPROTO;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    c->rfd = c->wfd = pair[0];
    c->io = CHAN_SOCKET;
    c->held = pair[1];
    c->awaited = true;
    near_deliver(n, c);
    return 0;
}

bool near_deliver(struct near *n, struct chan *c) {
    uint8_t head[2 * LINK_ADDR];
    int r;

    link_addr_encode(&c->open.to, head);
    link_addr_encode(&c->open.from, head + LINK_ADDR);
    r = sock_send(n->place[c->open.place], head, sizeof head, &c->held, 1);
    if (r == -EAGAIN || r == -ETOOMANYREFS)
        return false;
    c->awaited = false;
    closep(&c->held); /* if there is no one to take it, its other end sees that it is closed */
    return true;
}

int near_datagrams(struct near *n, struct chan *c) {
    int fd = n->place[c->open.place];

    if (!n->started || fd < 0)
        return -EPROTO;
    c->rfd = c->wfd = fcntl(fd, F_DUPFD_CLOEXEC, NEAR_FDS);
    c->io = CHAN_SOCKET;
    return c->rfd < 0 ? -errno : 0;
}

size_t near_pull_datagram(struct chan *c, uint8_t *to, size_t max) {
    ssize_t n = recv(c->rfd, to, MIN_OF(max, (size_t)(LINK_DATAGRAM_HEAD + LINK_DATAGRAM_MAX)), MSG_DONTWAIT);

    if (n == 0)
        closep(&c->rfd); /* the supervisor is gone; the control socket says so, too */
    if (c->rfd < 0)
        c->wfd = -1;
    return n >= LINK_DATAGRAM_HEAD ? (size_t)n : 0;
}

void near_datagram(struct chan *c, const uint8_t *bytes, size_t len) {
    if (len >= LINK_DATAGRAM_HEAD && c->wfd >= 0)
        (void)!send(c->wfd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}
