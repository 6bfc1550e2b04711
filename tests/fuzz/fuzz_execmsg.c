/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of the exec socket, as any client may send them: the first byte says how many descriptors come with one, and whether the first of
 * them is a memfd, the second how many KiB are in that. Must hold: a message that is accepted is of a known type, its body is as long as it
 * says and no longer than the ceiling, no descriptor is lost, and none comes that was not asked for. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/sock.h"
#include "proto/execmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 128 * 1024, COUNT_MASK = 3, IS_MEMFD = 4 };

/* The number that the next descriptor will have: equal before and after if all were closed. */
static int next_fd(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

static int make_memfd(size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        BUG("memfd");
    return fd;
}

static void send_packet(int sock, const uint8_t *data, size_t size) {
    size_t n = data[0] & COUNT_MASK;
    bool memfd = data[0] & IS_MEMFD;
    int fds[COUNT_MASK] = {-1, -1, -1};

    for (size_t i = 0; i < n; i++)
        fds[i] = i == 0 && memfd ? make_memfd((size_t)data[1] * 1024) : open("/dev/null", O_RDWR | O_CLOEXEC);
    sock_send(sock, data + 2, memfd ? MIN_OF(size - 2, sizeof(struct exec_msg)) : size - 2, fds, n);
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}

static void expect_sense(const struct exec_msg *m, const struct buf *body, size_t n_fds, size_t want) {
    if (m->type < EXEC_MSG_EXEC || m->type > EXEC_MSG_CONNECT || body->len != m->len || body->len > BODY_MAX || n_fds > want)
        BUG("a message that makes no sense");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf body = BUF_INIT(BODY_MAX);
    int before = next_fd(), pair[2], fds[EXEC_FDS_MAX];
    size_t want = EXEC_FDS_MAX, n_fds = want;
    struct exec_msg m;

    if (size < 3 || sock_pair(pair) < 0)
        return 0;
    send_packet(pair[0], data, size);
    close(pair[0]);
    if (execmsg_recv(pair[1], &m, &body, fds, &n_fds) == 1)
        expect_sense(&m, &body, n_fds, want);
    while (n_fds > 0)
        close(fds[--n_fds]);
    close(pair[1]);
    if (next_fd() != before)
        BUG("a descriptor stayed open");
    return 0;
}
