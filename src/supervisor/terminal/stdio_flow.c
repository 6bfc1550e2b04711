/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of a relay. */
#include "supervisor/terminal/stdio.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int stdio_flow_open(struct stdio_flow *f) {
    f->buf = malloc(STDIO_FLOW_BUF);
    if (!f->buf)
        return -ENOMEM;
    f->active = true;
    return 0;
}

void stdio_flow_close(struct stdio_flow *f) {
    free(f->buf);
    *f = (struct stdio_flow){.src = -1, .dst = -1};
}

size_t stdio_flow_poll(const struct stdio_flow *f, struct pollfd *out) {
    if (!f->active)
        return 0;
    if (f->len > 0) {
        out[0] = (struct pollfd){.fd = f->dst, .events = POLLOUT};
        return 1;
    }
    if (f->src_paused || f->src_ended)
        return 0;
    out[0] = (struct pollfd){.fd = f->src, .events = POLLIN};
    return 1;
}

static bool ready(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events};

    return poll(&p, 1, 0) == 1;
}

static bool hung_up(int fd) {
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR | POLLNVAL));
}

ssize_t stdio_flow_read(int fd, enum stdio_io io, void *buf, size_t n) {
    ssize_t r;

    if (io == STDIO_IO_POLLED && !ready(fd, POLLIN))
        return -EAGAIN;
    do
        r = io == STDIO_IO_SOCKET ? recv(fd, buf, n, MSG_DONTWAIT) : read(fd, buf, n);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

static ssize_t write_end(int fd, enum stdio_io io, const void *buf, size_t n) {
    ssize_t r;

    if (io == STDIO_IO_POLLED) {
        if (!ready(fd, POLLOUT))
            return -EAGAIN;
        n = MIN_OF(n, (size_t)PIPE_BUF);
    }
    do
        r = io == STDIO_IO_SOCKET ? send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL) : write(fd, buf, n);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

/* 0: buffer empty; -EAGAIN: dst is full; -EPIPE: dst is gone. */
static int flush(struct stdio_flow *f) {
    while (f->len > 0) {
        ssize_t n = write_end(f->dst, f->dst_io, f->buf + f->off, f->len);

        if (n == -EAGAIN || n == 0)
            return -EAGAIN;
        if (n < 0) {
            f->failed = n == -EPIPE ? 0 : (int)n;
            return -EPIPE;
        }
        f->off += (size_t)n;
        f->len -= (size_t)n;
    }
    f->off = 0;
    return 0;
}

static ssize_t fill_buffer(struct stdio_flow *f) {
    uint8_t raw[STDIO_FLOW_READ];
    ssize_t n;

    if (!f->rewrite) {
        n = stdio_flow_read(f->src, f->src_io, f->buf, STDIO_FLOW_BUF);
        f->len = n > 0 ? (size_t)n : 0;
    } else {
        n = stdio_flow_read(f->src, f->src_io, raw, sizeof raw);
        if (n >= 0)
            f->len = f->rewrite(f->rewrite_ctx, raw, (size_t)n, n == 0, f->buf);
    }
    if (n > 0)
        f->bytes += (size_t)n;
    return n;
}

int stdio_flow_run(struct stdio_flow *f) {
    ssize_t n;
    int r = flush(f);

    if (r < 0)
        return r == -EAGAIN ? 0 : r;
    if (f->src_ended)
        return -ENODATA;
    if (f->src_paused)
        return 0;
    n = fill_buffer(f);
    if (n == -EAGAIN)
        return 0;
    if (n == -EIO)
        return -EIO;
    if (n < 0 || (n == 0 && (!f->src_tty || hung_up(f->src))))
        f->src_ended = true;
    r = flush(f);
    if (r == 0 && f->src_ended)
        return -ENODATA;
    return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}
