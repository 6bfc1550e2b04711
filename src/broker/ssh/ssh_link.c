/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to the user's ssh-agent. */
#include "broker/ssh/ssh_link.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "os/fd.h"

enum { LENGTH = 4 };

int ssh_link_init(struct ssh_link *l, int fd) {
    *l = (struct ssh_link){.fd = fd, .out = BUF_INIT(SSH_LINK_MAX), .in = malloc(SSH_LINK_MAX)};
    if (l->in)
        return 0;
    closep(&l->fd);
    return -ENOMEM;
}

void ssh_link_done(struct ssh_link *l) {
    closep(&l->fd);
    buf_done(&l->out);
    free(l->in);
    *l = (struct ssh_link){.fd = -1};
}

short ssh_link_events(const struct ssh_link *l) {
    return (short)(POLLIN | (l->sent < l->out.len ? POLLOUT : 0));
}

/* By sendmsg and recvmsg, which the jail has for its other sockets. 0: full, or empty. */
static long link_write(struct ssh_link *l) {
    struct iovec iov = {.iov_base = l->out.data + l->sent, .iov_len = l->out.len - l->sent};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = sendmsg(l->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return n;
}

static long link_read(struct ssh_link *l) {
    struct iovec iov = {.iov_base = l->in + l->in_len, .iov_len = SSH_LINK_MAX - l->in_len};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n = recvmsg(l->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    return n ? n : -ECONNRESET;
}

int ssh_link_send(struct ssh_link *l, uint8_t type, struct ssh_bytes payload) {
    buf_clear(&l->out);
    l->sent = l->in_len = 0;
    ssh_put_u32(&l->out, (uint32_t)payload.len + 1);
    buf_addc(&l->out, (char)type);
    if (payload.len)
        buf_add(&l->out, payload.p, payload.len);
    if (!buf_ok(&l->out))
        return -ENOMEM;
    return 0;
}

int ssh_link_turn(struct ssh_link *l, struct ssh_bytes *ret) {
    bool asked = l->out.len > 0;
    long n = l->sent < l->out.len ? link_write(l) : 0;

    if (n < 0)
        return (int)n;
    l->sent += (size_t)n;
    n = link_read(l);
    if (n < 0)
        return (int)n;
    if (n > 0 && (!asked || l->sent < l->out.len))
        return -EBADMSG;
    l->in_len += (size_t)n;
    n = ssh_agent_frame(l->in, l->in_len);
    if (n < 0 || (n > 0 && (size_t)n != l->in_len))
        return -EBADMSG;
    if (n == 0)
        return 0;
    *ret = (struct ssh_bytes){l->in + LENGTH, (size_t)n - LENGTH};
    buf_clear(&l->out);
    l->sent = l->in_len = 0;
    return 1;
}
