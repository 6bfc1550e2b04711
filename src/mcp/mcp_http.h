/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn mcp --http`: streamable HTTP of the Model Context Protocol.
 *
 * Theory of operation. bawn-front, jailed, has the listening socket and speaks HTTP (proto/api/mcproute.h). This process compares the token, and
 * only then reads a message, as far as needed to know which answers belong to it. A session is a process that does what `bawn mcp` does
 * on standard input and output (mcp_serve.c), with pipes to here. So the limits, progress and cancelling are the same, and a session ends
 * with its pipes. Its lines are not parsed here: they begin as rpc.c and mcp_work.c write them, and what they begin with says whose they are.
 *
 * A POST is answered by one JSON message, or, if it calls a tool and its client takes server-sent events, by a stream of them. A GET is a stream that
 * has only comments, because this server asks nothing by itself. A client that goes does not end its call, as the protocol has it: DELETE does, and
 * notifications/cancelled, and an hour without a request.
 */
#pragma once

#include "base/buf.h"
#include "base/sha256.h"
#include "base/strv.h"
#include "mcp/mcp.h"
#include "os/randid.h"

struct api_fields;

enum {
    MCP_SESSIONS_MAX = 64,
    MCP_EXCHANGES_MAX = 512,
    MCP_IDLE_MS = 3600 * 1000,
    MCP_COMMENT_MS = 15 * 1000,
    MCP_STREAM_HIGH = 8 * 1024 * 1024, /* a session's lines wait when a client leaves so much unread */
    MCP_PENDING_MAX = 128 * 1024 * 1024
};

struct mcp_session {
    char id[RANDID_SIZE];
    pid_t pid;
    int in, out; /* of its process: what it reads, what it writes; -1: it is over */
    struct buf to, part;
    size_t sent; /* of `to` */
    uint64_t used_ms;
    size_t exchanges;
    bool failed; /* it is to be ended: what began it was refused */
};

/* A request of HTTP that has no answer yet, or whose answer is a stream. */
struct mcp_exchange {
    uint64_t request;
    struct mcp_session *session;      /* NULL: it has ended */
    struct strv heads;                /* what a line begins with that answers it; one for each message that has no answer yet */
    struct strv more;                 /* the same of progress */
    bool stream, list, begins, ended; /* ended: no line comes any more */
    int out;                          /* the stream's; -1: none */
    struct buf lines;                 /* what it is to get */
    size_t sent;
    uint64_t comment_ms;
};

struct mcp_http {
    const struct mcp_opts *o;
    unsigned char token[SHA256_LEN];
    int front;
    struct mcp_session *sessions[MCP_SESSIONS_MAX];
    size_t n_sessions;
    struct mcp_exchange *exchanges[MCP_EXCHANGES_MAX];
    size_t n_exchanges;
    bool failed; /* the front is gone */
};

/* -- mcp_listen.c -------------------------------------------------------------------------------------------------------- */

/* "127.0.0.1:7071", "[::1]:0": loopback only. ret_url: "http://127.0.0.1:7071/mcp" with the port that it became. */
int mcp_listen(const char *address, int *ret, char **ret_url, struct err *err);
/* What the file has, or a new one if there is none; no file: a new one. */
int mcp_token_get(const char *path, char ret[static TOKEN_SIZE], struct err *err);
/* Starts bawn-front with this socket. */
int mcp_front_start(int listener, int *ret_sock, pid_t *ret_pid, struct err *err);

/* -- mcp_session.c ------------------------------------------------------------------------------------------------------- */

struct mcp_session *mcp_session_begin(struct mcp_http *h, struct err *err);
struct mcp_session *mcp_session_find(struct mcp_http *h, const char *id);
void mcp_session_end(struct mcp_http *h, struct mcp_session *s); /* its exchanges, too */
void mcp_session_send(struct mcp_session *s, const char *line);
void mcp_session_flush(struct mcp_session *s);
/* False: it has ended. */
bool mcp_session_read(struct mcp_http *h, struct mcp_session *s);
void mcp_sessions_expire(struct mcp_http *h);

/* -- mcp_exchange.c ------------------------------------------------------------------------------------------------------ */

/* NULL: too many. */
struct mcp_exchange *mcp_exchange_new(struct mcp_http *h, struct mcp_session *s, uint64_t request);
void mcp_exchange_free(struct mcp_http *h, struct mcp_exchange *x);
struct mcp_exchange *mcp_exchange_find(struct mcp_http *h, uint64_t request);
/* Opens the stream. */
int mcp_exchange_open(struct mcp_http *h, struct mcp_exchange *x);
void mcp_exchange_flush(struct mcp_http *h, struct mcp_exchange *x); /* may free it */
void mcp_exchange_drop(struct mcp_http *h, struct mcp_exchange *x);  /* its session has ended; may free it */
void mcp_exchange_comment(struct mcp_exchange *x);
/* A line of the session; the exchange that it belongs to gets it. */
void mcp_exchange_line(struct mcp_http *h, struct mcp_session *s, const char *line, size_t len);
/* No answer comes for this one any more. why: for one that is no stream. */
void mcp_exchange_cancel(struct mcp_http *h, const struct mcp_session *s, const char *head, const char *why);
bool mcp_exchange_waits(const struct mcp_http *h, const struct mcp_session *s, const char *head);

void mcp_http_answer(struct mcp_http *h, uint64_t request, unsigned status, const char *session, const char *json);
void mcp_http_problem(struct mcp_http *h, uint64_t request, unsigned status, const char *code, const char *detail);

/* -- mcp_post.c ---------------------------------------------------------------------------------------------------------- */

void mcp_http_request(struct mcp_http *h, uint64_t request, unsigned op, const struct api_fields *f);
