/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives messages of the exec socket. */
#include "proto/execmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"

static_assert(EXEC_FDS_MAX + 1 <= SOCK_FDS_MAX, "a memfd and the streams");

enum { PACKET_MAX = sizeof(struct exec_msg) + EXEC_INLINE_MAX };

static int send_memfd(int sock, struct exec_msg *m, const void *body, const int *fds, size_t n_fds) {
    CLEANUP(closep) int memfd = fd_memory("bawn-exec", body, m->len);
    int all[SOCK_FDS_MAX];

    if (memfd < 0)
        return memfd;
    m->flags = EXEC_MSG_MEMFD;
    all[0] = memfd;
    if (n_fds)
        memcpy(all + 1, fds, n_fds * sizeof *fds);
    return sock_send(sock, m, sizeof *m, all, n_fds + 1);
}

int execmsg_send(int sock, struct exec_msg *m, const void *body, const int *fds, size_t n_fds) {
    CLEANUP(freep) char *packet = NULL;

    m->flags = 0;
    if (n_fds > EXEC_FDS_MAX)
        return -EINVAL;
    if (m->len == 0)
        return sock_send(sock, m, sizeof *m, fds, n_fds);
    if (m->len > EXEC_INLINE_MAX)
        return send_memfd(sock, m, body, fds, n_fds);
    packet = malloc(sizeof *m + m->len);
    if (!packet)
        return -ENOMEM;
    memcpy(packet, m, sizeof *m);
    memcpy(packet + sizeof *m, body, m->len);
    return sock_send(sock, packet, sizeof *m + m->len, fds, n_fds);
}

/* Only what lives in memory has seals: reading a file of a slow file system would make the receiver wait for its peer. */
static int read_memfd(int fd, size_t len, struct buf *body) {
    CLEANUP(freep) char *bytes = NULL;
    struct stat st;

    if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != len)
        return -EBADMSG;
    bytes = malloc(len);
    if (!bytes)
        return -ENOMEM;
    if (fd_pread_full(fd, bytes, len, 0) != (ssize_t)len)
        return -EBADMSG; /* it was cut meanwhile */
    buf_add(body, bytes, len);
    return buf_ok(body) ? 0 : -ENOMEM;
}

static int check_message(const struct exec_msg *m, size_t inline_len, size_t n_fds, const struct buf *body) {
    bool memfd = m->flags == EXEC_MSG_MEMFD;

    if (m->type < EXEC_MSG_EXEC || m->type > EXEC_MSG_CONNECT || (m->flags && !memfd))
        return -EBADMSG;
    if (memfd ? inline_len != 0 || n_fds == 0 || m->len <= EXEC_INLINE_MAX : inline_len != m->len)
        return -EBADMSG;
    return m->len > body->ceiling || body->len > body->ceiling - m->len ? -EMSGSIZE : 0;
}

static int take_body(const struct exec_msg *m, const char *behind, int memfd, struct buf *body) {
    if (m->flags & EXEC_MSG_MEMFD)
        return read_memfd(memfd, m->len, body);
    buf_add(body, behind, m->len);
    return buf_ok(body) ? 0 : -ENOMEM;
}

int execmsg_recv(int sock, struct exec_msg *m, struct buf *body, int *ret_fds, size_t *n_fds) {
    CLEANUP(freep) char *packet = malloc(PACKET_MAX);
    size_t want = n_fds ? *n_fds : 0, came = SOCK_FDS_MAX, own;
    struct exec_msg msg;
    int fds[SOCK_FDS_MAX], r;
    long n = packet ? sock_recv(sock, packet, PACKET_MAX, fds, &came) : -ENOMEM;

    if (n_fds)
        *n_fds = 0;
    if (n <= 0)
        return (int)n;
    if ((size_t)n < sizeof msg) {
        fd_close_all(fds, came);
        return -EBADMSG;
    }
    memcpy(&msg, packet, sizeof msg);
    r = check_message(&msg, (size_t)n - sizeof msg, came, body);
    own = r == 0 && (msg.flags & EXEC_MSG_MEMFD) ? 1 : 0;
    if (r == 0 && came - own > want)
        r = -EBADMSG;
    r = r < 0 ? r : take_body(&msg, packet + sizeof msg, fds[0], body);
    fd_close_all(fds, r < 0 ? came : own);
    if (r < 0)
        return r;
    if (came > own) {
        memcpy(ret_fds, fds + own, (came - own) * sizeof *fds);
        *n_fds = came - own;
    }
    *m = msg;
    return 1;
}
