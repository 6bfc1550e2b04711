/* SPDX-License-Identifier: Apache-2.0 */
/* Connections into the sandbox, for published ports: the socket is made here, in the sandbox's network, and used outside. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init.h"
#include "os/fd.h"
#include "os/sock.h"

enum { OWN_PORT = 15001 /* jail/network/network.h: leads out of the sandbox again */ };

static int start_connect(int family, uint16_t port, int *ret_fd) {
    const struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    CLEANUP(closep) int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(int);
    int r, failed = 0;

    if (fd < 0)
        return -errno;
    r = family == AF_INET ? connect(fd, (const struct sockaddr *)&a4, sizeof a4)
                          : connect(fd, (const struct sockaddr *)&a6, sizeof a6);
    if (r < 0 && errno != EINPROGRESS)
        return -errno;
    /* On loopback the refusal is there already, but connect() does not say so. */
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0 || failed)
        return failed ? -failed : -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int inside_connect(int port, int *ret_fd) {
    int r;

    if (port < 1 || port > UINT16_MAX || port == OWN_PORT)
        return -EINVAL;
    r = start_connect(AF_INET, (uint16_t)port, ret_fd);
    if (r == -ECONNREFUSED && start_connect(AF_INET6, (uint16_t)port, ret_fd) == 0) /* node's "localhost" */
        r = 0;
    return r;
}

void inside_answer(const struct init *in, const struct init_msg *ask) {
    struct pollfd room = {.fd = in->control, .events = POLLOUT};
    struct init_msg msg = {.type = INIT_MSG_INSIDE, .extra = ask->extra};
    CLEANUP(closep) int fd = -1;

    msg.value =
        -(in->start.flags & INIT_FLAG_SOCKETS ? guard_inside(in->guard, ask->value, &fd) : inside_connect(ask->value, &fd));
    /* We must go on reaping: a supervisor that does not read its answers loses them. */
    if (poll(&room, 1, 0) > 0 && (room.revents & POLLOUT))
        sock_send(in->control, &msg, sizeof msg, &fd, fd >= 0);
}
