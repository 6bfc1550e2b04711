/* SPDX-License-Identifier: Apache-2.0 */
/* The near end: messages of the supervisor's that come with descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "link/near.h"
#include "os/fd.h"
#include "proto/execreq.h"

enum { EXEC_FLAGS_AT = 16 /* in an encoded struct exec_request */ };

static enum chan_io io_of(int fd) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return CHAN_SHARED;
    return S_ISSOCK(st.st_mode) ? CHAN_SOCKET : S_ISFIFO(st.st_mode) ? CHAN_PIPE : CHAN_SHARED;
}

/* Takes fd. What the channel is for decides about its direction: a terminal or socket could be both. */
static int open_stream(struct near *n, int fd, bool input, uint16_t *ret) {
    const struct link_open o = {.kind = input ? LINK_INPUT : LINK_OUTPUT};
    struct chan *c;
    int r = mux_open(&n->m, &o, &c);

    if (r < 0) {
        closep(&fd);
        return r;
    }
    *(input ? &c->rfd : &c->wfd) = fd;
    c->io = io_of(fd);
    *ret = c->id;
    return 0;
}

/* One open file for both: what is written keeps its order. */
static bool is_one(int a, int b) {
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           (S_ISFIFO(x.st_mode) || S_ISSOCK(x.st_mode) || S_ISCHR(x.st_mode));
}

/* Standard error, which may be the same as standard output. Takes fd. */
static int open_error(struct near *n, int fd, const uint16_t *output, uint16_t *ret) {
    const struct chan *c = output ? mux_chan(&n->m, *output) : NULL;

    if (!c || !is_one(c->wfd, fd))
        return open_stream(n, fd, false, ret);
    closep(&fd);
    *ret = *output;
    return 0;
}

static int open_file(struct near *n, int fd, uint16_t *ret) {
    struct link_open o = {.kind = LINK_FILE};
    struct stat st;
    struct chan *c;
    int r = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || lseek(fd, 0, SEEK_SET) < 0 ? -EINVAL : 0;

    o.size = r < 0 ? 0 : (uint64_t)st.st_size;
    r = r < 0 ? r : mux_open(&n->m, &o, &c);
    if (r < 0) {
        closep(&fd);
        return r;
    }
    c->rfd = fd;
    *ret = c->id;
    return 0;
}

/* The first message of all. */
bool near_send_start(struct near *n) {
    uint8_t bytes[LINK_START_SIZE];
    uint16_t channels[LINK_CONTROL_FDS];
    size_t used = 0;
    int r = open_file(n, TAKE_FD(n->start_fd), &channels[used++]);

    for (int i = 0; r == 0 && i < 3; i++)
        if (n->stdio[i] >= 0) {
            r = i < 2 ? open_stream(n, TAKE_FD(n->stdio[i]), i == 0, &channels[used])
                      : open_error(n, TAKE_FD(n->stdio[i]), n->start.stdio & 2 ? &channels[used - 1] : NULL, &channels[used]);
            used++;
            n->start.stdio |= 1u << i;
        }
    if (r < 0) {
        mux_fail(&n->m, r, "the start message cannot be sent");
        return false;
    }
    link_start_encode(&n->start, bytes);
    mux_send(&n->m, channels, used, bytes, sizeof bytes);
    n->asked = true;
    return false; /* nothing follows before it is answered */
}

/* Which standard stream each descriptor of a request is. */
static uint32_t exec_streams(const struct near *n, size_t len, int memfd) {
    uint32_t flags = 0;

    if (memfd >= 0 ? pread(memfd, &flags, sizeof flags, EXEC_FLAGS_AT) != sizeof flags
                   : len < sizeof(struct init_msg) + EXEC_FLAGS_AT + sizeof flags)
        return 0;
    if (memfd < 0)
        memcpy(&flags, n->body + sizeof(struct init_msg) + EXEC_FLAGS_AT, sizeof flags);
    return flags;
}

void near_send_exec(struct near *n, const struct init_msg *msg, size_t len, int *fds, size_t n_fds) {
    static const uint32_t streams[3] = {EXEC_STDIN, EXEC_STDOUT, EXEC_STDERR};
    bool in_file = msg->extra == 1 && n_fds > 0;
    uint32_t flags = exec_streams(n, len, in_file ? fds[0] : -1);
    uint16_t channels[LINK_CONTROL_FDS];
    size_t used = 0;
    int r = 0;

    if (in_file) {
        r = open_file(n, TAKE_FD(fds[0]), &channels[0]);
        used = 1;
    }
    for (int i = 0; r == 0 && i < 3 && used < n_fds; i++)
        if (flags & streams[i]) {
            r = i < 2 ? open_stream(n, TAKE_FD(fds[used]), i == 0, &channels[used])
                      : open_error(n, TAKE_FD(fds[used]), flags & EXEC_STDOUT ? &channels[used - 1] : NULL, &channels[used]);
            if (r == 0 && i > 0)
                mux_chan(&n->m, channels[used])->job = msg->job;
            used++;
        }
    fd_close_all(fds + used, n_fds - used);
    if (r < 0)
        near_answer_failure(n, msg->job, -EAGAIN, "too many streams at once over this link");
    else
        mux_send(&n->m, channels, used, n->body, len);
}
