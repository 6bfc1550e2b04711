/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The near end of a byte link: bawn-link, one process for each sandbox that shares no kernel with us. To its supervisor it is
 * bawn-init: same descriptors, same messages (spec/init-protocol.md). What the far end says is a claim, from a hostile machine: it is read
 * in a jail that has no file, no network and no secret.
 *
 *     descriptor      what
 *     0, 1, 2         the command's standard streams
 *     3               the control socket, bawn-init's end
 *     4               the start message
 *     5, 6            the stream to the far end, for reading and for writing; they may be one socket
 *     7, 8            in the place of listeners: where connections to sockets that are shown inside are delivered; none: /dev/null
 *
 *     argv: bawn-link [--network] [--show 0|1 PATH]...
 *
 * A connection that was accepted inside is delivered as one message on a SEQPACKET socket: both addresses (struct link_addr, LINK_ADDR bytes
 * each: what was connected to, by whom) and a descriptor. Datagrams come and go as messages: the asker's address, that of who was asked, the
 * bytes. These sockets go to the supervisor with INIT_MSG_NETWORK, as listeners do.
 */
#pragma once

#include "link/late.h"
#include "link/mux.h"
#include "proto/initmsg.h"

struct err;

enum { NEAR_FD_CONTROL = 3, NEAR_FD_START, NEAR_FD_IN, NEAR_FD_OUT, NEAR_FD_SHOWN, NEAR_FDS = NEAR_FD_SHOWN + LINK_PLACES_SHOWN };
enum { NEAR_FILE_MAX = 1 << 30, NEAR_TTY_MS = 50, NEAR_MESSAGE_MAX = sizeof(struct init_msg) + 64 * 1024 };

struct near {
    struct mux m;
    struct link_start start;
    int stdio[3], control, start_fd;
    int place[LINK_PLACES]; /* where connections are delivered; -1: none */
    bool speaks;            /* the supervisor has something to say */
    bool asked, started;    /* START was sent; it was answered */
    bool said_last;         /* the message that ends a run has come: it goes out last of all */
    struct init_msg last;
    struct init_msg parked[LINK_CHANNELS]; /* that wait for their file, by its channel */
    struct late late;
    size_t terminals;
    size_t asked_open; /* INIT_MSG_OPEN of the supervisor's that have no answer yet */
    int maker;         /* of terminals; -1: none */
    char body[NEAR_MESSAGE_MAX];
};

/* All descriptors are taken. */
int near_init(struct near *n, int in, int out, struct err *err);
/* Until the link has ended and all that came is passed on. 0: as it should; negative: n->m.why says why. */
int near_run(struct near *n);
void near_done(struct near *n);

/* near_send.c. False: nothing follows before it is answered. */
bool near_send_start(struct near *n);
void near_send_exec(struct near *n, const struct init_msg *msg, size_t len, int *fds, size_t n_fds);
void near_answer_failure(struct near *n, int job, int r, const char *what);

/* near_tty.c: a terminal of our own, whose other end the supervisor has as the master of the one inside. */
int near_tty_open(const struct near *n, struct chan *c);
void near_tty_sync(struct near *n, bool modes); /* sizes that were set; and the modes */
void near_tty_modes(struct chan *c, const struct link_tty *t);

/* near_maker.c: who makes them. Only for a start message with a terminal, or of a persistent sandbox; before near_lock(). */
int near_maker_start(struct near *n, struct err *err);
int near_maker_ask(const struct near *n, int *ret_master, int *ret_slave);

/* near_deliver.c: the places. */
int near_places(struct near *n, uint32_t places); /* makes them, and hands them to the supervisor */
int near_accepted(struct near *n, struct chan *c);
int near_datagrams(struct near *n, struct chan *c);
size_t near_pull_datagram(struct chan *c, uint8_t *to, size_t max);
void near_datagram(struct chan *c, const uint8_t *bytes, size_t len);
bool near_deliver(struct near *n, struct chan *c); /* false: there is no room now */

/* near_jail.c. Started by root, it has an id of its own. */
enum { NEAR_IDS_FIRST = 0x79000000, NEAR_ID_PLAIN = 65534 };
int near_lock(struct err *err);
