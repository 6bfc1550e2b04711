/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of the byte link: channels over one reliable stream (proto/link/linkmsg.h, spec/link-protocol.md).
 *
 * Theory of operation. A channel joins a descriptor here with one at the other end. What is read from `rfd` becomes DATA, as far as the other
 * end gave credit for it; what comes is written to `wfd`, and what that does not take waits in blocks of a pool. Credit is given only for
 * room that is reserved, so the other end can make us hold LINK_BYTES_MAX and no more, whatever it sends. Frames are made when the
 * last ones are written, in turn from each channel that has something: none waits for more than one frame of each other one. Everything
 * but DATA is made from flags of its channel, so that no flood of small frames can pile up. Reading never waits for writing.
 *
 * All memory is taken by mux_init(). A peer that breaks the protocol, ends or does not answer ends the link: mux_turn() then returns
 * negative, and m->why says why.
 */
#pragma once

#include <poll.h>

#include "os/spin.h"
#include "proto/link/linkmsg.h"

enum {
    LINK_BLOCK = 16 * 1024,
    LINK_BYTES_MAX = 128 * 1024 * 1024, /* of what comes that is held here */
    LINK_OUT = 384 * 1024,
    LINK_IN = 256 * 1024,
    LINK_MESSAGE_MAX = 72 * 1024, /* on CONTROL */
    LINK_PING_MS = 10 * 1000,     /* of silence; then the other end is asked whether it lives */
    LINK_DEAD_MS = 60 * 1000,     /* without an answer */
    LINK_EXTRA_FDS = 64,          /* that the owner waits for */
    LINK_PIPE_ROOM = 4096         /* what a pipe takes without waiting if poll(2) says that it takes something */
};

/* How a descriptor is used without ever waiting. */
enum chan_io {
    CHAN_NONBLOCK, /* its description is ours, and does not block */
    CHAN_SOCKET,   /* MSG_DONTWAIT */
    CHAN_SHARED,   /* another process has its description, too: read and written in small parts, after poll(2) */
    CHAN_PIPE      /* the same, a pipe: written with RWF_NOWAIT where the kernel has it for pipes */
};

struct chan {
    uint16_t id;
    bool used, ours; /* ours: opened here */
    enum link_kind kind;
    struct link_open open;
    int rfd, wfd; /* -1: none, or no more; may be the same */
    enum chan_io io;

    uint32_t credit; /* bytes that we may send */
    uint64_t sent;   /* bytes */
    bool end_due, end_sent, stop_due, stop_sent, closed_due;
    uint32_t end_error;

    uint32_t window;  /* credit that the other end has left */
    uint32_t owed;    /* bytes that were passed on, for which it gets credit again */
    uint32_t ceiling; /* window + owed + queued */
    uint32_t queued;
    uint16_t first, last; /* blocks of what is queued */
    uint32_t first_at, last_len;
    uint64_t received; /* bytes that were passed on */
    uint64_t brought;  /* FILE: bytes that were begun */
    bool end_received, discards;
    uint32_t end_received_error;

    struct link_tty tty[2]; /* to be sent: size, modes */
    bool tty_due[2];
    bool readable, writable, hung; /* of the last poll */

    bool awaited;                  /* the owner has still to hand it over, so it is not forgotten before, even if it has ended */
    int held;                      /* the owner's: the descriptor to hand over; -1: none. Closed with the channel */
    int tag;                       /* the owner's */
    int job;                       /* 0: of none that may end before it */
    uint64_t until, seen, seen_ms; /* late.c */
    bool hurries;                  /* the same: its job was signalled to end */
    /* The owner's, in the place of write(2) to wfd; NULL: none. */
    ssize_t (*writer)(struct chan *c, const uint8_t *bytes, size_t len);
};

struct mux;

struct mux_ops {
    /* A channel that the other end opened: gives it descriptors. Negative: it is refused; what it brings is discarded. */
    int (*opened)(void *arg, struct chan *c);
    /* A message on CONTROL. 0: it is taken; -EAGAIN: later; other errors end the link. */
    int (*message)(void *arg, const uint8_t *bytes, size_t len);
    /* Makes one message with mux_send(), if there is one. True: there may be more. */
    bool (*pull)(void *arg);
    /* The same, when the channels had their turn; may be NULL. */
    bool (*pull_late)(void *arg);
    /* One datagram from c->rfd, 0: none; and one that came, which may be dropped. */
    size_t (*pull_datagram)(void *arg, struct chan *c, uint8_t *to, size_t max);
    void (*datagram)(void *arg, struct chan *c, const uint8_t *bytes, size_t len);
    void (*tty)(void *arg, struct chan *c, const struct link_tty *t);
    /* All that comes on c has come, and was passed on. */
    void (*ended)(void *arg, struct chan *c);
    /* c is about to be forgotten. */
    void (*gone)(void *arg, struct chan *c);
    /* More descriptors to wait for (at most LINK_EXTRA_FDS), and what came; milliseconds until it wants a turn, -1: none. */
    size_t (*want)(void *arg, struct pollfd *out, int *ret_ms);
    void (*ready)(void *arg, const struct pollfd *fds, size_t n);
};

struct mux {
    enum link_role role;
    int in, out; /* borrowed; non-blocking */
    const struct mux_ops *ops;
    void *arg;
    struct chan *chans; /* LINK_CHANNELS */
    uint16_t *live;     /* numbers of those that are used */
    size_t n_live, turn;
    unsigned grown; /* channels with LINK_WINDOW_MAX */

    uint8_t *blocks;
    uint16_t *next; /* the list of free blocks, and those of the channels */
    uint16_t free_block;

    uint8_t *in_buf, *out_buf;
    size_t in_at, in_len, out_at, out_len;
    bool greeted;
    struct chan *data; /* whose DATA is being read, */
    uint32_t data_left;

    uint8_t *messages; /* on CONTROL, that the owner has no room for: length and bytes */
    size_t messages_at, messages_len;
    uint32_t control_credit, control_window, control_owed;

    bool ping_due, pong_due, pinged;
    uint64_t heard_ms;
    bool deaf; /* the other end is gone; only what came is passed on */
    bool mute; /* it does not read any more; what it sent before is read to its end */
    int error; /* 0, or why the link has ended */
    char why[LINK_WHY_MAX];

    struct spin spin;
    struct pollfd *polled;
    uint16_t *polled_chan;
    void *memory;
    size_t memory_size;
};

int mux_init(struct mux *m, enum link_role role, int in, int out, const struct mux_ops *ops, void *arg);
void mux_done(struct mux *m); /* closes the channels' descriptors, not the stream */

/* Waits once, and does what can be done. Negative: the link has ended. */
int mux_turn(struct mux *m);
/* Ends it, with a word to the other end. Returns r. */
int mux_fail(struct mux *m, int r, const char *why);
bool mux_flushed(const struct mux *m); /* everything that was made is written */
int mux_write(struct mux *m);          /* some of it, if it is not; negative: the other end is gone */

/* In ops. -EMFILE: no number is left. The owner sets the descriptors. */
int mux_open(struct mux *m, const struct link_open *o, struct chan **ret);
bool mux_can_send(const struct mux *m); /* there is credit and room for any message */
void mux_send(struct mux *m, const uint16_t *channels, size_t n, const void *bytes, size_t len);
struct chan *mux_chan(struct mux *m, uint16_t id); /* NULL: not open */
/* No more from, or to, the descriptor here. error: 0, or errno for the other end. */
void mux_end(struct chan *c, uint32_t error);
void mux_stop(struct mux *m, struct chan *c);
void mux_tty(struct chan *c, const struct link_tty *t);
void mux_send_ttys(struct mux *m); /* now, before what is sent next */
/* Messages that were put off are tried again. */
int mux_retry(struct mux *m);
