/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors over sockets. */
#include "os/sock.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

int sock_pair(int ret_fds[2]) {
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

union control {
    char bytes[CMSG_SPACE(sizeof(int) * SOCK_FDS_MAX)];
    struct cmsghdr align;
};

int sock_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds) {
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control = {0};
    ssize_t n;

    if (n_fds > SOCK_FDS_MAX)
        return -EINVAL;
    if (n_fds) {
        struct cmsghdr *c;

        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * n_fds);
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EMSGSIZE;
}

static size_t take_fds(struct msghdr *msg, int *fds) {
    size_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t bytes = c->cmsg_len - CMSG_LEN(0);

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || bytes / sizeof(int) > SOCK_FDS_MAX - n)
            continue;
        memcpy(fds + n, CMSG_DATA(c), bytes);
        n += bytes / sizeof(int);
    }
    return n;
}

long sock_recv(int sock, void *data, size_t len, int *ret_fds, size_t *n_fds) {
    struct iovec iov = {.iov_base = data, .iov_len = len};
    union control control = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int fds[SOCK_FDS_MAX];
    size_t got, want = n_fds ? *n_fds : 0;
    bool reset = false;
    ssize_t n;

    if (n_fds)
        *n_fds = 0; /* also on failure: a caller that closes what came must not close something else */
    while ((n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC)) < 0) {
        if (errno != EINTR && (errno != ECONNRESET || reset))
            return -errno;
        reset = errno == ECONNRESET;
    }
    got = take_fds(&msg, fds);
    if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || got > want) {
        for (size_t i = 0; i < got; i++)
            close(fds[i]);
        return -EBADMSG;
    }
    if (got)
        memcpy(ret_fds, fds, got * sizeof(int));
    if (n_fds)
        *n_fds = got;
    return n;
}

int sock_peer(int sock, uid_t *ret) {
    struct ucred peer;
    socklen_t len = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    *ret = peer.uid;
    return 0;
}

bool sock_peer_is_ours(int sock) {
    uid_t uid;

    return sock_peer(sock, &uid) == 0 && (uid == geteuid() || uid == 0);
}
