/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from one socket to another and back, until both have said all. What comes in small pieces is copied through one
 * buffer that all relays share; a direction that fills it at once is bulk, and goes through a pipe in the kernel from then on
 * (splice).
 *
 * Back-pressure: nothing is read while bytes wait to be written. A half-close is carried over. Keep-alive probes are only
 * switched on for connections that live long: most do not, and would pay for it.
 */
#pragma once

#include "base/macros.h"

struct gate;
struct relay;
struct pipes;
struct err;

enum {
    RELAY_BUFFER = 64 * 1024,
    RELAY_PIPE = 512 * 1024,
    RELAY_PIPES_MAX = 64,           /* bulk directions at once; more are copied */
    RELAY_TURN_MAX = 1024 * 1024,   /* bytes of one direction before others have their turn */
    RELAY_YOUNG_MS = 60 * 1000,     /* then keep-alive */
    RELAY_IDLE_MS = 60 * 60 * 1000, /* nothing in either direction: closed */
};

enum relay_end {
    RELAY_DONE,
    RELAY_RESET, /* one of the two was reset or failed: the other one has to learn it */
    RELAY_IDLE,
    RELAY_REFUSED /* by check() or tap() */
};

struct relay_opts {
    int client, server; /* connected, non-blocking; they stay the caller's, who closes them after relay_free() */
    void *arg;
    /* May be NULL. Looks (MSG_PEEK) at the client's first bytes before any of them goes on: 0: fine; -EAGAIN: more has to
     * come (the caller sees to it that the socket is not readable until then); else refused. The other direction runs
     * meanwhile. */
    int (*check)(void *arg);
    /* May be NULL. Sees the bytes of both directions before they go on: 0: go on; 1: it has seen enough; else refused. */
    int (*tap)(void *arg, bool from_client, const uint8_t *data, size_t len);
    void (*sent)(void *arg, size_t n); /* may be NULL: so many bytes of the client go on */
    void (*end)(void *arg, enum relay_end how, uint64_t sent, uint64_t received); /* once; relay_free() may be called in it */
};

int relay_new(struct gate *g, const struct relay_opts *opts, struct relay **ret);
/* What the client has said meanwhile goes on without a turn of the loop. May call end(). */
void relay_begin(struct relay *r);
void relay_free(struct relay *r); /* at once; end() is not called */
/* The same, and closes both sockets. They must have no copies. */
void relay_close(struct relay *r);
void relay_bytes(const struct relay *r, uint64_t *ret_sent, uint64_t *ret_received);

int pipes_new(struct pipes **ret, struct err *err);
void pipes_free(struct pipes *p);
