/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of an inspected connection. One of the states below; inspect_run() makes all steps that are possible, then tells
 * the loop which events and how much time it waits for. Nothing else starts or stops a poll or a timer.
 *
 *     HELLO   the ClientHello is peeked for its protocols         (TLS only, as all up to CLIENT)
 *     SERVER  handshake with the server; the leaf is asked for meanwhile
 *     LEAF    waits for it
 *     CLIENT  handshake with the client
 *     OPEN    HTTP
 *     DRAIN   everything was said; what the client still sends is thrown away for a moment, because closing a socket with
 *             unread bytes makes the kernel send a reset that can overtake our last answer
 *     ENDED   end() was called, or inspect_free()
 *
 * If the server's side fails, the client's is opened all the same, and every request is answered with the reason (`trouble`).
 */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "gateway/epoll_set.h"
#include "gateway/gate.h"
#include "gateway/tls/inspect.h"
#include "gateway/tls/stream.h"
#include "gateway/tls/tls.h"
#include "proto/tls_hello.h"

enum {
    INSPECT_HANDSHAKE_MS = 30 * 1000,
    INSPECT_IDLE_MS = 60 * 1000,      /* between requests, and for the head of one: single bytes do not prolong it */
    INSPECT_DENIED_MS = 5 * 1000,     /* the same where every request is denied: some wait for the server to speak first */
    INSPECT_BUSY_MS = 60 * 60 * 1000, /* within a request, without a byte in either direction: Server-Sent Events */
    INSPECT_DRAIN_MS = 5 * 1000,
    INSPECT_PAUSE_MS = 1000, /* what hooks keep back of an answer goes out after one to two of these without a byte of it */
    INSPECT_CHUNK = 64 * 1024,
    INSPECT_ROUNDS = 8 /* chunks in each direction before other connections have their turn */
};

/* The build zeroes automatic variables: for these, that would cost more than reading into them. */
#define CHUNK_BUFFER UNINITIALIZED uint8_t

enum inspect_state { STATE_HELLO, STATE_SERVER, STATE_LEAF, STATE_CLIENT, STATE_OPEN, STATE_DRAIN, STATE_ENDED };

struct inspect_side {
    struct stream s;
    struct inspect *inspect;
    struct watch watch;
    bool open;  /* the socket is ours */
    int events; /* that are waited for */
    bool reset; /* the kernel says that the connection is broken */
    bool eof;   /* will send no more */
    bool shut;  /* knows that no more comes, or does not listen */
};

/* The handshakes. */
struct inspect_tls {
    struct tls_leaf *leaf;    /* asked for */
    SSL_CTX *ctx;             /* came */
    bool no_leaf;             /* will not come */
    const char *client_likes; /* the first protocol of the client's that we know; a constant */
    const char *alpn;         /* that both sides speak; a constant */
    size_t peeked;            /* HELLO: bytes that were not enough */
};

/* Moments, in ms as the loop has them. */
struct inspect_clock {
    uint64_t since; /* when the state, or the time between requests, began */
    uint64_t moved; /* the last byte */
    uint64_t due;   /* when the timer fires; 0: not started */
    uint64_t pause; /* when httpx_pause() is called next; 0: nothing is held back */
};

struct inspect {
    struct gate *gate;
    enum inspect_state state;
    struct inspect_side side[2]; /* by enum httpx_way: the one to which it goes */
    struct deadline timer;
    struct soon turn; /* goes on without an event; at the end it frees the memory */
    bool running, again;

    struct host host;
    struct inspect_opts opts;
    struct httpx *http;
    struct inspect_tls tls;
    bool bad;        /* httpx refused to go on: only what it has to say is written */
    bool cut;        /* the answer is not whole, and must not look so */
    bool busy;       /* at the last look */
    uint64_t judged; /* requests, at the last look */
    bool denied;     /* there is no server */
    bool has_trouble;
    enum inspect_end trouble; /* with the server; the client gets it as the answer */
    enum inspect_end how;     /* DRAIN: for end() */
    struct inspect_clock clock;
    uint64_t sent, received;
    char why[200];
};

static inline struct inspect_side *inspect_client(struct inspect *i) {
    return &i->side[HTTPX_TO_CLIENT];
}
static inline struct inspect_side *inspect_server(struct inspect *i) {
    return &i->side[HTTPX_TO_SERVER];
}

/* May the server's answers have a credential in them? Then no copy of their bytes is left behind. */
static inline bool inspect_covers(const struct inspect *i) {
    return i->opts.http.hooks.receiving != NULL;
}

void inspect_run(struct inspect *i);
void inspect_enter(struct inspect *i, enum inspect_state state); /* also starts its time */
void inspect_close_side(struct inspect_side *side);
/* Calls end(): nothing may be touched afterwards but i->state. */
void inspect_finish(struct inspect *i, enum inspect_end how);
void inspect_drain(struct inspect *i, enum inspect_end how);

/* inspect_tls.c: each makes the steps of its state. */
void inspect_step_hello(struct inspect *i);
void inspect_step_server(struct inspect *i);
void inspect_step_leaf(struct inspect *i);
void inspect_step_client(struct inspect *i);
/* The server's side is of no use: the client gets to know why. */
void inspect_trouble(struct inspect *i, enum inspect_end how, const char *why);

/* inspect_http.c */
int inspect_open(struct inspect *i, enum httpx_kind kind);
void inspect_step_open(struct inspect *i);
void inspect_step_drain(struct inspect *i);
int inspect_open_events(struct inspect *i, enum httpx_way way); /* that the side wants */
void inspect_pause(struct inspect *i);                          /* its time has come */
bool inspect_has_more(struct inspect *i);                       /* to do, without any event */
