/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and datagrams that another one accepted. */
#include "gateway/net/delivery.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/uio.h>

#include "os/fd.h"
#include "os/sock.h"
#include "proto/link/linkmsg.h"

static_assert((int)DELIVERY_HEAD == (int)LINK_DATAGRAM_HEAD, "the same head");

static void to_sockaddr(const struct link_addr *a, struct sockaddr_storage *ret) {
    *ret = (struct sockaddr_storage){0};
    if (a->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret;

        in->sin_family = AF_INET;
        in->sin_port = htons(a->port);
        memcpy(&in->sin_addr, a->ip, 4);
    } else if (a->family == 6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(a->port);
        memcpy(&in6->sin6_addr, a->ip, 16);
    }
}

int delivery_accept(int fd, struct sockaddr_storage *ret_to) {
    uint8_t head[DELIVERY_HEAD];
    CLEANUP(closep) int got = -1;
    struct link_addr to;
    size_t n = 1;
    long len = sock_recv(fd, head, sizeof head, &got, &n);

    if (len < 0)
        return len == -EBADMSG ? -ECONNABORTED : (int)len;
    if (len == 0)
        return -EPIPE; /* the sandbox is gone */
    if (len != DELIVERY_HEAD || n != 1 || link_addr_decode(head, &to) < 0 || fcntl(got, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
        return -ECONNABORTED;
    if (ret_to)
        to_sockaddr(&to, ret_to);
    return TAKE_FD(got);
}

int delivery_or_accept(int fd, bool *delivered, struct sockaddr_storage *ret_to) {
    int got;

    if (!*delivered) {
        got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (got >= 0 || errno != EINVAL)
            return got >= 0 ? got : -errno;
        *delivered = true;
    }
    return delivery_accept(fd, ret_to);
}

long delivery_recv(int fd, uint8_t head[static DELIVERY_HEAD], uint8_t *bytes, size_t size) {
    struct iovec iov[] = {{head, DELIVERY_HEAD}, {bytes, size}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = ARRAY_LEN(iov)};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    if (n == 0)
        return -EPIPE;
    return n < DELIVERY_HEAD || msg.msg_flags & MSG_TRUNC ? -EBADMSG : n - DELIVERY_HEAD;
}

void delivery_send(int fd, const uint8_t head[static DELIVERY_HEAD], const uint8_t *bytes, size_t len) {
    struct iovec iov[] = {{(void *)(uintptr_t)head, DELIVERY_HEAD}, {(void *)(uintptr_t)bytes, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = ARRAY_LEN(iov)};

    (void)!sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool delivery_is(int fd) {
    int type = 0;
    socklen_t len = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}
