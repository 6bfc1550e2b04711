/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inspected connection: two streams (plain or TLS), and HTTP between them (httpx.h). For TLS the server's side is
 * opened first: its certificate is verified against the host's trust store for the name, then the client gets a leaf of the
 * sandbox's own CA with the application protocol (h2, http/1.1) that the server chose, so that both sides speak the same.
 *
 * A connection that is denied has no server's side: the client gets its leaf, and hooks.judge() refuses what it asks for. HTTP/1.1
 * is chosen if the client knows it, for the words behind the status, which many clients show.
 */
#pragma once

#include "gateway/http/httpx.h"

struct gate;
struct inspect;

enum inspect_end {
    INSPECT_DONE, /* both sides have said all */
    INSPECT_CLIENT_GONE,
    INSPECT_SERVER_GONE,
    INSPECT_NOT_TRUSTED, /* the server's certificate; inspect_why() */
    INSPECT_NO_LEAF,     /* the broker did not answer */
    INSPECT_HANDSHAKE,   /* one of the handshakes failed; inspect_why() */
    INSPECT_PROTOCOL,
    INSPECT_TIMEOUT
};

struct inspect_opts {
    /* Non-blocking, connected; taken, also on failure. Nothing was read from client (only peeked). server -1: denied */
    int client, server;
    struct httpx_opts http; /* kind and trouble are chosen here */
    void *arg;
    /* Once, never before inspect_new() returns; the sockets are closed. inspect_free() may be called in it, or later. */
    void (*sent)(void *arg, size_t n); /* may be NULL: so many bytes went to the server */
    void (*end)(void *arg, enum inspect_end how, uint64_t sent, uint64_t received);
};

int inspect_new(struct gate *g, const struct inspect_opts *opts, struct inspect **ret, struct err *err);
const char *inspect_why(const struct inspect *i);
void inspect_decide(struct inspect *i, uint32_t id, const struct policy_verdict *v);
/* As httpx_head(), httpx_set_query() and httpx_answer(). */
struct http_head *inspect_head(struct inspect *i, uint32_t id);
int inspect_set_query(struct inspect *i, uint32_t id, const char *query);
void inspect_answer(struct inspect *i, uint32_t id, int status, const char *content_type, const void *body, size_t len);
/* So far. */
void inspect_bytes(const struct inspect *i, uint64_t *ret_sent, uint64_t *ret_received);
/* When it is freed, the peers see a reset, so that they do not take it for an end. */
void inspect_reset(struct inspect *i);
/* At once; end() is not called. Also from a hook or from end(). The memory goes at the end of the turn. */
void inspect_free(struct inspect *i);
