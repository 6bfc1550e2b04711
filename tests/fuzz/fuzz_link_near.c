/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-link, fed by a hostile far end: it ends with a reason, no descriptor is left, and the supervisor gets messages of the right form only. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "link/near.h"
#include "os/fd.h"
#include "os/sock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a supervisor would get. */
static void read_all(int control) {
    for (;;) {
        struct init_msg msg;
        int fds[SOCK_FDS_MAX];
        size_t n = SOCK_FDS_MAX;
        long len = sock_recv(control, &msg, sizeof msg, fds, &n);

        if (len <= 0)
            return;
        if (len != (long)sizeof msg)
            BUG("a message of another length");
        if (msg.type == INIT_MSG_SIGNAL || msg.type == INIT_MSG_GO || msg.type == INIT_MSG_EXEC)
            BUG("an order to the supervisor");
        fd_close_all(fds, n);
    }
}

static void begin(struct near *n, bool network, int control) {
    *n = (struct near){.control = control, .stdio = {-1, -1, -1}, .maker = -1, .asked_open = 3}; /* files that may come */
    for (int i = 0; i < LINK_PLACES; i++)
        n->place[i] = -1;
    n->start.flags = network ? LINK_START_NETWORK : 0;
    n->start_fd = memfd_create("start", MFD_CLOEXEC);
    if (write(n->start_fd, "bawnini3", 8) != 8)
        BUG("no memory");
    n->stdio[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct near n;
    uint8_t hello[LINK_HELLO];
    struct err err = {0};
    int stream[2], control[2];

    if (size < 1 || size > 200000 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) < 0)
        return 0;
    if (sock_pair(control) < 0)
        BUG("no sockets");
    fcntl(control[0], F_SETFL, O_RDWR | O_NONBLOCK);
    begin(&n, data[0] & 1, control[1]);
    if (near_init(&n, stream[0], stream[0], &err) < 0)
        BUG("no memory");
    link_hello_encode(&(struct link_hello){.version = LINK_VERSION, .role = LINK_FAR}, hello);
    if (!(data[0] & 2) && write(stream[1], hello, sizeof hello) != sizeof hello)
        BUG("no room for a hello");
    for (int i = 0; i < 4 && !n.asked && !(data[0] & 2); i++) /* what a far end says before it was asked ends the link at once */
        (void)mux_turn(&n.m);
    for (size_t at = 1; at < size && !n.m.error;) {
        ssize_t sent = send(stream[1], data + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);

        at += sent > 0 ? (size_t)sent : 0;
        (void)mux_turn(&n.m);
        read_all(control[0]);
    }
    close(stream[1]);
    while (!n.m.error)
        (void)mux_turn(&n.m);
    if (!n.m.why[0])
        BUG("a link that ended without a reason");
    (void)near_run(&n);
    read_all(control[0]);
    near_done(&n);
    close(control[0]);
    close(stream[0]);
    return 0;
}
