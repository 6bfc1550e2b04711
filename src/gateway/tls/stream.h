/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A non-blocking stream of bytes: a socket, or TLS over a socket. No loop here: the caller polls the socket, says what it found
 * (stream_ready()) and asks which events to wait for (stream_events()).
 *
 * Reads and writes return -EAGAIN only after the socket was found empty or full. A read that took all there was clears
 * `readable`, so that the usual case (one request, one answer) costs one system call for each and none to learn that there is
 * no more.
 */
#pragma once

#include <openssl/ssl.h>
#include <sys/types.h>

#include "base/macros.h"

struct err;

struct stream {
    int fd;
    SSL *ssl;                        /* NULL: plain */
    bool readable, writable;         /* a call is worth trying */
    bool broken;                     /* TLS failed: not even close_notify may be sent */
    uint8_t read_wants, write_wants; /* UV_READABLE or UV_WRITABLE: what the last -EAGAIN waits for */
};

void stream_init(struct stream *s, int fd); /* takes it */
void stream_done(struct stream *s);         /* at once, without a word to the peer */

/* Speaks TLS from now on; takes ssl, which is in connect or accept state, also on failure. */
int stream_start_tls(struct stream *s, SSL *ssl, struct err *err);
/* 0: done. -EAGAIN. Else it failed: err says why, in words that hold nothing of what the peer sent. */
int stream_handshake(struct stream *s, struct err *err);

/* 0: the peer said that it will send no more. -ECONNRESET: TLS ended without saying so, and what came may be cut. */
ssize_t stream_read(struct stream *s, void *data, size_t len);
ssize_t stream_write(struct stream *s, const void *data, size_t len); /* some of it */
/* Tells the peer that no more will come: close_notify, then FIN. -EAGAIN: again when writable. */
int stream_shutdown(struct stream *s);

void stream_ready(struct stream *s, int events); /* UV_READABLE, UV_WRITABLE */
int stream_events(const struct stream *s, bool reading, bool writing);
