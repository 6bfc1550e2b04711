/* SPDX-License-Identifier: Apache-2.0 */
/* Records in and out of a stream, in large parts. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/fd.h"
#include "workspace/copy/treestream.h"

static_assert((int)TREE_OUT >= 2 * (TREE_HEADER + TREE_TEXT_MAX), "a record fits");

bool tree_is_remote(int fd) {
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int tree_flush(struct tree_io *io) {
    for (size_t at = 0; io->error == 0 && at < io->out_len;) {
        ssize_t n = send(io->fd, io->out + at, io->out_len - at, MSG_NOSIGNAL);

        if (n < 0 && errno == ENOTSOCK)
            n = write(io->fd, io->out + at, io->out_len - at);
        if (n < 0 && errno != EINTR)
            io->error = -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    io->out_len = 0;
    return io->error;
}

void tree_put(struct tree_io *io, const struct tree_record *r, const void *text) {
    if (io->out_len + TREE_HEADER + r->len > sizeof io->out)
        tree_flush(io);
    tree_record_encode(r, io->out + io->out_len);
    if (r->len)
        memcpy(io->out + io->out_len + TREE_HEADER, text, r->len);
    io->out_len += TREE_HEADER + r->len;
}

long tree_put_data(struct tree_io *io, int file, off_t at, uint64_t max) {
    size_t room;
    uint8_t *to;
    ssize_t n;

    if (io->out_len > sizeof io->out / 2)
        tree_flush(io);
    room = (size_t)MIN_OF((uint64_t)(sizeof io->out - io->out_len - TREE_HEADER), max);
    to = io->out + io->out_len + TREE_HEADER;
    do {
        n = at < 0 ? read(file, to, room) : pread(file, to, room, at);
    } while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    tree_record_encode(&(struct tree_record){.kind = TREE_DATA, .value = (uint64_t)n}, io->out + io->out_len);
    io->out_len += TREE_HEADER + (size_t)n;
    return io->error < 0 ? io->error : n;
}

static int fill_in(struct tree_io *io) {
    ssize_t n;

    if (io->in_at < io->in_len)
        return 0;
    n = fd_read_some(io->fd, io->in, sizeof io->in);
    if (n <= 0)
        return n < 0 ? (int)n : -EPROTO;
    io->in_at = 0;
    io->in_len = (size_t)n;
    return 0;
}

long tree_get_data(struct tree_io *io, size_t len, const uint8_t **ret) {
    int r = fill_in(io);
    size_t n = MIN_OF(len, io->in_len - io->in_at);

    if (r < 0)
        return r;
    *ret = io->in + io->in_at;
    io->in_at += n;
    return (long)n;
}

static int get_bytes(struct tree_io *io, void *to, size_t len) {
    for (size_t at = 0; at < len;) {
        const uint8_t *part;
        long n = tree_get_data(io, len - at, &part);

        if (n < 0)
            return (int)n;
        memcpy((uint8_t *)to + at, part, (size_t)n);
        at += (size_t)n;
    }
    return 0;
}

int tree_get(struct tree_io *io, struct tree_record *ret) {
    uint8_t head[TREE_HEADER];
    int r = get_bytes(io, head, sizeof head);

    if (r < 0 || tree_record_decode(head, ret) < 0)
        return r < 0 ? r : -EPROTO;
    io->text[ret->len] = 0;
    return get_bytes(io, io->text, ret->len);
}
