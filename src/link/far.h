/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The far end of a byte link: inside bawn-init itself (`bawn-init --link`, the stream on 0 and 1), because any other process in there could be
 * killed by the workload. It greets, gets the start message, makes the network, and then is a thread of PID 1 that moves bytes, while
 * bawn-init runs on socket pairs, pipes and a memfd as it always does.
 *
 *   Should: keep the stream, listeners and pipes; be locked down as bawn-init is, when that is.
 *   Mustn't: take memory or a lock after it was started (bawn-init forks), be seen by a command (all is close-on-exec), or outlive the link: when
 *   the near end is gone, PID 1 ends, and so does everything inside.
 */
#pragma once

#include "link/mux.h"

struct err;

/* Reads the start from the near end; afterwards 0 to 4 are as bawn-init expects them. */
int far_begin(struct err *err);
/* Starts the thread. lock: makes the calling thread give up what bawn-init gives up. */
int far_start(int (*lock)(void *arg, struct err *err), void *arg, struct err *err);
/* Locks the thread down; the caller's own turn comes after it. */
int far_lock(struct err *err);
/* The sandbox ends: everything inside is killed, what it wrote is sent, and the process exits. Call only if far_is_on(). */
void far_finish(int status) __attribute__((noreturn));
bool far_is_on(void);
int far_thread(void); /* its number inside, once it is locked down; 0: there is none */

/* far_net.c: listeners inside. */
struct listeners;
struct far_net {
    int tcp[LINK_PLACES]; /* that accept; by place; -1: none */
    bool redirected;      /* NETWORK_REDIRECTED */
};
/* Listeners that the program before us made, at FAR_FD_LISTENERS and the place: a set of places, with bit 16 as in INIT_MSG_NETWORK, and bit 17
 * for NETWORK_REDIRECTED. Without it they are made here, which takes CAP_NET_ADMIN. */
enum { FAR_FD_LISTENERS = 64, FAR_REDIRECTED = 1 << 17 };
void far_net_inherit(uint32_t places);
int far_net_make(const struct link_start *s, struct far_net *net, struct listeners *l, uint32_t *ret_places, struct err *err);
void far_net_open(struct mux *m, struct listeners *l); /* the channels of datagrams */
size_t far_net_want(const struct far_net *net, struct pollfd *out);
void far_net_accept(struct mux *m, const struct far_net *net, const struct pollfd *fds, size_t n);
size_t far_net_pull(struct chan *c, uint8_t *to, size_t max);
void far_net_datagram(struct chan *c, const uint8_t *bytes, size_t len);

/* far_tty.c: modes that a program inside has set, for the near end; and those, and sizes, that come from there. */
size_t far_tty_sync(struct mux *m); /* how many terminals there are */
void far_tty_set(struct chan *c, const struct link_tty *t);
/* For terminals that make no signals of keys: it does. far_key() gives one to bawn-init; false: not now. */
ssize_t far_tty_write(struct chan *c, const uint8_t *bytes, size_t len);
bool far_tty_signals(int master); /* they do */
bool far_key(const struct chan *c, int sig);
void far_tty_end(struct mux *m); /* once everything inside is dead: those that have nothing more to say */
