/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a relay: reads from src, writes to dst, and never blocks, so that its caller stays able to
 * handle signals and timeouts however stuck a reader is. A flow reads only while its buffer is empty: a reader that does
 * not read thereby stops the writer, and memory stays at one buffer.
 *
 * The user's descriptors cannot be made non-blocking (their descriptions are shared with the shell and with other
 * programs of a pipeline), so each end says how it is spoken to:
 */
#pragma once

#include <poll.h>
#include <sys/types.h>

#include "base/macros.h"

enum stdio_io {
    STDIO_IO_NONBLOCK, /* our own description, O_NONBLOCK */
    STDIO_IO_SOCKET,   /* MSG_DONTWAIT; a plain read drops SCM_RIGHTS, so no descriptor crosses */
    STDIO_IO_POLLED,   /* blocking: asked with poll() before each call, at most PIPE_BUF bytes per write */
};

enum { STDIO_FLOW_BUF = 64 * 1024, STDIO_FLOW_READ = 16 * 1024 };

/* Rewrites n bytes of in to out (at most STDIO_FLOW_BUF) and returns how many; final: the input has ended. */
typedef size_t stdio_rewrite(void *ctx, const uint8_t *in, size_t n, bool final, uint8_t *out);

struct stdio_flow {
    bool active;
    int src, dst; /* borrowed */
    enum stdio_io src_io, dst_io;
    bool src_tty;           /* reading 0 bytes there is an end that the user typed; more may follow */
    bool src_paused;        /* do not read for now (background job, hung-up pty) */
    bool src_ended;         /* nothing more will be read; the rest of the buffer is still written */
    stdio_rewrite *rewrite; /* NULL: bytes pass unchanged */
    void *rewrite_ctx;
    uint8_t *buf;
    size_t off, len; /* bytes [off, off + len) of buf wait for dst */
    uint64_t bytes;  /* read so far */
};

int stdio_flow_open(struct stdio_flow *f); /* allocates; -ENOMEM */
void stdio_flow_close(struct stdio_flow *f);
/* Appends up to 2 entries to out; returns how many. */
size_t stdio_flow_poll(const struct stdio_flow *f, struct pollfd *out);

/*
 * Moves what can be moved. 1: there may be more; 0: it must wait; -EPIPE: dst will take no more (src is left as it is);
 * -ENODATA: src has ended and everything is written; -EIO: src is a pty without any process on the other side.
 */
int stdio_flow_run(struct stdio_flow *f);

/* One read(2) that does not block: -EAGAIN; 0 at the end. */
ssize_t stdio_flow_read(int fd, enum stdio_io io, void *buf, size_t n);
