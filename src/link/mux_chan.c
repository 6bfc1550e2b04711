/* SPDX-License-Identifier: Apache-2.0 */
/* A channel and its descriptors here. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "link/mux_priv.h"
#include "os/fd.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

bool chan_is_message(enum link_kind kind) {
    return kind == LINK_DATAGRAMS;
}

struct chan *mux_chan(struct mux *m, uint16_t id) {
    return id != LINK_CONTROL && id < LINK_CHANNELS && m->chans[id].used ? &m->chans[id] : NULL;
}

struct chan *chan_use(struct mux *m, uint16_t id, const struct link_open *o, bool ours) {
    struct chan *c = &m->chans[id];

    *c = (struct chan){.id = id,
                       .used = true,
                       .ours = ours,
                       .kind = o->kind,
                       .open = *o,
                       .rfd = -1,
                       .wfd = -1,
                       .held = -1,
                       .credit = LINK_WINDOW,
                       .window = LINK_WINDOW,
                       .ceiling = LINK_WINDOW,
                       .first = MUX_NONE,
                       .last = MUX_NONE};
    if (o->kind == LINK_INPUT || o->kind == LINK_FILE) /* one direction only: the other one has ended */
        *(ours ? &c->end_received : &c->end_sent) = true;
    if (o->kind == LINK_OUTPUT)
        *(ours ? &c->end_sent : &c->end_received) = true;
    m->live[m->n_live++] = id;
    return c;
}

static void free_blocks(struct mux *m, struct chan *c) {
    while (c->first != MUX_NONE) {
        uint16_t block = c->first;

        c->first = m->next[block];
        m->next[block] = m->free_block;
        m->free_block = block;
    }
    c->last = MUX_NONE;
    c->queued = 0;
    c->first_at = c->last_len = 0;
}

static void close_both(struct chan *c) {
    if (c->wfd == c->rfd)
        c->wfd = -1;
    closep(&c->rfd);
    closep(&c->wfd);
}

void chan_free(struct mux *m, struct chan *c) {
    if (m->ops->gone)
        m->ops->gone(m->arg, c);
    close_both(c);
    closep(&c->held);
    free_blocks(m, c);
    if (c->ceiling > LINK_WINDOW)
        m->grown--;
    c->used = false;
    for (size_t i = 0; i < m->n_live; i++)
        if (m->live[i] == c->id) {
            m->live[i] = m->live[--m->n_live];
            break;
        }
}

/* -- to the other end ------------------------------------------------------------------------------------------------------ */

void chan_close_read(struct chan *c) {
    if (c->rfd >= 0 && c->rfd == c->wfd) {
        if (c->io == CHAN_SOCKET)
            shutdown(c->rfd, SHUT_RD);
        c->rfd = -1; /* wfd has it still */
        return;
    }
    closep(&c->rfd);
}

void mux_end(struct chan *c, uint32_t error) {
    if (c->end_due || c->end_sent)
        return;
    c->end_due = true;
    c->end_error = error;
    chan_close_read(c);
}

void mux_tty(struct chan *c, const struct link_tty *t) {
    c->tty[t->what - 1] = *t;
    c->tty_due[t->what - 1] = true;
}

bool chan_reads(const struct chan *c) {
    return c->rfd >= 0 && !c->end_due && !c->end_sent && (c->credit > 0 || chan_is_message(c->kind));
}

/* The end of what can be read. A connection that is closed before it had an answer was refused: the client shall see that. */
static void on_read_end(struct mux *m, struct chan *c, int error) {
    bool refused = c->kind == LINK_CONNECTION && c->hung && c->sent == 0 && !c->end_received && m->role == LINK_NEAR;

    if (error == EIO && c->kind == LINK_TERMINAL)
        error = 0; /* how a pty ends */
    mux_end(c, refused ? ECONNRESET : (uint32_t)error);
    if (error || c->hung)
        mux_stop(m, c);
}

/* A file that grows meanwhile is sent as long as it was. */
static size_t read_limit(const struct chan *c, size_t max) {
    return c->kind == LINK_FILE && c->open.size - c->sent < max ? (size_t)(c->open.size - c->sent) : max;
}

/* With EXTPROC the kernel makes of a single VEOF a read of nothing. It is a key like any other, for the terminal at the other end. */
static uint8_t end_key(int tty) {
    struct termios t;

    return tcgetattr(tty, &t) == 0 ? t.c_cc[VEOF] : 'D' - '@';
}

long chan_read(struct mux *m, struct chan *c, uint8_t *to, size_t max) {
    ssize_t n;

    max = read_limit(c, max);
    n = c->io == CHAN_SOCKET ? recv(c->rfd, to, max, MSG_DONTWAIT) : read(c->rfd, to, max);

    if (n > 0) {
        c->sent += (uint64_t)n;
        return n;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n == 0 && c->kind == LINK_TERMINAL && !c->hung) {
        *to = end_key(c->rfd);
        return 1;
    }
    on_read_end(m, c, n < 0 ? errno : 0);
    return 0;
}

/* -- from the other end ---------------------------------------------------------------------------------------------------- */

static void close_write(struct chan *c) {
    static const struct linger now = {.l_onoff = 1};

    if (c->wfd < 0)
        return;
    if (c->wfd == c->rfd && c->kind != LINK_TERMINAL && !c->end_received_error) {
        shutdown(c->wfd, SHUT_WR);
        c->wfd = -1; /* rfd has it still */
        return;
    }
    if (c->end_received_error && c->io == CHAN_SOCKET)
        setsockopt(c->wfd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (c->wfd == c->rfd) { /* a terminal ends as a whole, and so does what was aborted */
        mux_end(c, 0);
        c->rfd = -1;
    }
    closep(&c->wfd);
}

void mux_stop(struct mux *m, struct chan *c) {
    if (c->discards)
        return;
    c->discards = true;
    c->stop_due = !c->end_received;
    free_blocks(m, c);
    close_write(c);
    if (c->end_received && m->ops->ended)
        m->ops->ended(m->arg, c);
}

static bool takes_more(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLOUT | POLLERR | POLLHUP));
}

/* Without waiting, although its description is not ours to change. */
static long write_pipe(int fd, const uint8_t *bytes, size_t len) {
    const struct iovec iov = {(void *)(uintptr_t)bytes, len};

    return syscall(SYS_pwritev2, fd, &iov, 1L, -1L, -1L, RWF_NOWAIT);
}

/* What it takes now; -1: no more at all. */
static long write_some(struct chan *c, const uint8_t *bytes, size_t len) {
    size_t done = 0;

    if (c->io == CHAN_PIPE) {
        long n = write_pipe(c->wfd, bytes, len);

        if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EPERM && errno != EINVAL))
            return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
        c->io = CHAN_SHARED; /* before Linux 6.5 */
    }

    while (done < len) {
        size_t part = c->io == CHAN_SHARED ? MIN_OF(len - done, (size_t)LINK_PIPE_ROOM) : len - done;
        ssize_t n;

        if (c->io == CHAN_SHARED && !takes_more(c->wfd))
            break;
        n = c->writer              ? c->writer(c, bytes + done, part)
            : c->io == CHAN_SOCKET ? send(c->wfd, bytes + done, part, MSG_DONTWAIT | MSG_NOSIGNAL)
                                   : write(c->wfd, bytes + done, part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? (long)done : -1;
        done += (size_t)n;
    }
    return (long)done;
}

/* A channel that brings more than a first answer gets a larger window, while there are some. */
static void chan_consumed(struct mux *m, struct chan *c, size_t n) {
    c->owed += (uint32_t)n;
    c->received += n;
    if (c->ceiling == LINK_WINDOW && c->received >= LINK_WINDOW && m->grown < MUX_GROWN_MAX) {
        m->grown++;
        c->ceiling = LINK_WINDOW_MAX;
        c->owed += LINK_WINDOW_MAX - LINK_WINDOW;
    }
}

static void queue_bytes(struct mux *m, struct chan *c, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        size_t n;

        if (c->last == MUX_NONE || c->last_len == LINK_BLOCK) {
            uint16_t block = m->free_block;

            if (block == MUX_NONE)
                BUG("credit for more than there is room for");
            m->free_block = m->next[block];
            m->next[block] = MUX_NONE;
            *(c->last == MUX_NONE ? &c->first : &m->next[c->last]) = block;
            c->last = block;
            c->last_len = 0;
        }
        n = MIN_OF(len, (size_t)LINK_BLOCK - c->last_len);
        memcpy(m->blocks + (size_t)c->last * LINK_BLOCK + c->last_len, bytes, n);
        c->last_len += (uint32_t)n;
        c->queued += (uint32_t)n;
        bytes += n;
        len -= n;
    }
}

static void drop_front(struct mux *m, struct chan *c, size_t n) {
    uint16_t block = c->first;

    c->first_at += (uint32_t)n;
    c->queued -= (uint32_t)n;
    if (c->first_at < LINK_BLOCK && !(block == c->last && c->first_at == c->last_len))
        return;
    c->first = m->next[block];
    c->first_at = 0;
    if (c->first == MUX_NONE) {
        c->last = MUX_NONE;
        c->last_len = 0;
    }
    m->next[block] = m->free_block;
    m->free_block = block;
}

/* After the last byte. */
static void settle_end(struct mux *m, struct chan *c) {
    if (!c->end_received || c->queued || c->discards)
        return;
    c->discards = true;
    close_write(c);
    if (m->ops->ended)
        m->ops->ended(m->arg, c);
}

void chan_drain(struct mux *m, struct chan *c) {
    while (c->queued && c->wfd >= 0) {
        size_t part = (c->first == c->last ? c->last_len : (uint32_t)LINK_BLOCK) - c->first_at;
        long n = write_some(c, m->blocks + (size_t)c->first * LINK_BLOCK + c->first_at, part);

        if (n < 0) {
            mux_stop(m, c);
            return;
        }
        if (n == 0)
            break;
        drop_front(m, c, (size_t)n);
        chan_consumed(m, c, (size_t)n);
    }
    settle_end(m, c);
}

void chan_receive(struct mux *m, struct chan *c, const uint8_t *bytes, size_t len) {
    long n = 0;

    c->window -= (uint32_t)len;
    if (c->discards)
        return; /* no credit again: the other end gets STOP */
    if (c->queued == 0 && c->wfd >= 0)
        n = write_some(c, bytes, len);
    if (n < 0) {
        mux_stop(m, c);
        return;
    }
    if (n > 0)
        chan_consumed(m, c, (size_t)n);
    queue_bytes(m, c, bytes + n, len - (size_t)n);
}

void chan_received_end(struct mux *m, struct chan *c, uint32_t error) {
    c->end_received = true;
    c->end_received_error = error;
    c->stop_due = false;
    if (error && c->kind != LINK_FILE) /* what is left of it is worth nothing */
        free_blocks(m, c);
    if (c->discards && m->ops->ended) /* it was given up before */
        m->ops->ended(m->arg, c);
    settle_end(m, c);
}
