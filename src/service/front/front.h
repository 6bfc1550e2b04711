/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-front: HTTP for bawnd. One thread, one loop (front_loop.h).
 *
 * Theory of operation. A connection (struct front_conn) comes from bawnd or from a listening socket, and is handed to libmicrohttpd (front_conn.c).
 * Each request on it is an exchange (struct front_exchange). Its head is examined by the tables (front_head.c); its body is collected and turned into
 * fields if it is JSON, and written to a descriptor of bawnd if it is bytes (front_http.c). Then bawnd is asked, and libmicrohttpd suspends
 * the connection: no byte of it is read or written until there is something to do, and only the client's going is watched for. What bawnd
 * says (front_core.c) becomes a response (front_answer.c), or the source of one (front_source.c), or a terminal (front_terminal.c).
 *
 * Everything that a client can make grow has a ceiling: connections, connections of a peer, exchanges in flight, headers, bodies, bytes of JSON in
 * memory, and the time for headers, for a body, and without progress.
 */
#pragma once

#include <microhttpd.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "proto/api/apifield.h"
#include "proto/api/apimsg.h"
#include "service/front/front_conf.h"
#include "service/front/front_fault.h"
#include "service/front/front_lines.h"
#include "service/front/front_loop.h"
#include "service/front/front_route.h"

enum {
    FRONT_HEAD_MAX = 32 * 1024,           /* memory of libmicrohttpd for a connection: headers and target */
    FRONT_DISCARD_MAX = 1024 * 1024,      /* of a body that is thrown away, so that its client sees the answer */
    FRONT_JSON_TOTAL = 256 * 1024 * 1024, /* of bodies that are being collected */
    FRONT_CHUNK = 64 * 1024,
    FRONT_TICK_MS = 250,
    FRONT_POLL_MIN_MS = 4, /* for a file that grows: from here, doubled while nothing comes */
    FRONT_POLL_MAX_MS = 64,
    FRONT_REQUEST_ID_SIZE = 4 + 24 + 1,
    FRONT_KEY_SIZE = 17
};

struct front_exec;
struct front_page;
struct front_packet;
struct front_terminal;

struct front_server {
    struct front_conf conf;
    struct front_loop loop;
    int core;
    struct front_watch core_watch, listen_watch[API_LISTEN_MAX], daemon_watch[2];
    bool listening;
    struct front_packet *out_first, *out_last;
    struct MHD_Daemon *plain, *tls; /* tls NULL: TCP is plain, too */
    struct front_conn **by_fd;
    size_t n_by_fd, n_conns;
    struct front_exchange **slots; /* by the low bits of a request's number */
    size_t n_slots;
    uint64_t sequence;
    size_t n_asked;
    size_t json_bytes;
    struct front_terminal *terminals;
    uint64_t tick_ms;
    bool resumed; /* libmicrohttpd has something to do */
    bool draining;
    int failed; /* -errno: the loop ends */
};

struct front_conn {
    struct front_server *front;
    struct MHD_Connection *mhd; /* NULL: not yet */
    struct MHD_Daemon *daemon;
    int fd; /* libmicrohttpd's */
    uint64_t peer;
    unsigned char key[FRONT_KEY_SIZE]; /* of whom the ceiling for one peer is */
    uint64_t deadline_ms;              /* for headers or a JSON body; 0: none now */
    char *uri;
    struct front_exchange *exchange; /* NULL: idle, or reading headers */
    struct front_watch gone;
};

enum front_form { FORM_JSON, FORM_SSE, FORM_NDJSON, FORM_BYTES };

struct front_exchange {
    struct front_server *front;
    struct front_conn *conn;
    uint64_t number;
    const struct api_route *route; /* NULL: none, and the response is there */
    const struct front_page *page; /* of the dashboard, instead of a route */
    enum front_form form;
    bool head; /* HEAD */
    char request_id[FRONT_REQUEST_ID_SIZE];

    /* the request */
    struct buf body;
    struct api_fields fields;
    uint64_t received; /* bytes of the body */
    uint64_t body_max;
    bool discard; /* the rest of the body is thrown away */
    int upload;   /* -1: none */
    struct front_watch upload_watch;
    bool body_begun; /* of bytes: bawnd has said what becomes of them */

    /* where it is */
    bool asked, answered, over; /* over: bawnd says nothing more about it */
    bool suspended, gone, cut;

    /* the answer */
    struct MHD_Response *response;
    unsigned status;
    bool queued;

    /* what the answer is made from, as it comes */
    unsigned source_flag; /* API_FLAG_STREAM, _EVENTS or _JSON; 0: none */
    int source;
    struct front_watch source_watch;
    struct event_lines lines;
    struct buf out;
    size_t out_at;
    bool source_end;
    bool has_outcome, has_last;
    struct api_msg outcome;
    uint64_t last;
    uint64_t poll_ms, comment_ms;
    unsigned poll_step;
    struct front_exec *exec; /* the two streams of a command, instead of source */
    int terminal;            /* -1, or the socket of a terminal to be */
};

/* -- front_core.c: the socket to bawnd ----------------------------------------------------------------------------------- */

int front_core_start(struct front_server *f);
/* Queues what does not go at once. A failure ends the loop. */
void front_send(struct front_server *f, const struct api_msg *m);
void front_send_gone(struct front_server *f, uint64_t peer);

/* -- front_conn.c: connections ------------------------------------------------------------------------------------------- */

int front_conns_init(struct front_server *f, struct err *err);
void front_conn_take(struct front_server *f, int fd, uint64_t peer, uint32_t uid);
void front_listen_update(struct front_server *f); /* takes connections if there is room */
void front_conn_notify(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_ConnectionNotificationCode code);
struct front_conn *front_conn_of(struct MHD_Connection *mhd);
void front_conns_tick(struct front_server *f, uint64_t now_ms);
void front_conns_drain(struct front_server *f);
/* Writes an answer past libmicrohttpd, which can send none while a body comes, and ends the connection. */
void front_conn_cut(struct front_conn *c, const struct front_fault *fault, const char *request_id);

/* -- front_exchange.c ---------------------------------------------------------------------------------------------------- */

struct front_exchange *front_exchange_new(struct front_conn *c);
void front_exchange_free(struct front_exchange *x);
struct front_exchange *front_exchange_find(struct front_server *f, uint64_t number);
void front_exchange_suspend(struct front_exchange *x);
void front_exchange_resume(struct front_exchange *x);
/* Sends REQUEST and suspends; a fault if there is no room. */
int front_exchange_ask(struct front_exchange *x, struct front_fault *fault);
void front_exchange_tick(struct front_server *f, uint64_t now_ms);
int front_exchange_timeout(const struct front_server *f); /* for epoll_wait(2) */

/* -- front_head.c: what the headers say ---------------------------------------------------------------------------------- */

/* Finds the route and the fields that are not in the body. allow: for a 405 or OPTIONS. -EINVAL with *fault (status 204 for OPTIONS). */
int front_head_examine(struct front_exchange *x, const char *method, struct buf *allow, struct front_fault *fault);

/* -- front_http.c: what libmicrohttpd calls ------------------------------------------------------------------------------ */

enum MHD_Result front_http_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                   const char *version, const char *data, size_t *size, void **context);
void front_http_completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode why);
void *front_http_uri(void *cls, const char *uri, struct MHD_Connection *mhd);

/* -- front_answer.c: responses ------------------------------------------------------------------------------------------- */

void front_answer_problem(struct front_exchange *x, const struct front_fault *fault, const char *allow);
/* From code, detail, field, retry in a body of bawnd, from its text i on. */
void front_answer_refusal(struct front_exchange *x, unsigned status, const struct api_msg *m, size_t i);
void front_answer_json(struct front_exchange *x, unsigned status, char *text, size_t len); /* takes text */
void front_answer_part(struct front_exchange *x, unsigned status, struct api_msg *m);
void front_answer_stream(struct front_exchange *x, MHD_ContentReaderCallback read);
void front_answer_terminal(struct front_exchange *x);
/* The response is there: the connection goes on. */
void front_answer_ready(struct front_exchange *x);
void front_problem_text(const struct front_fault *fault, const char *request_id, struct buf *b);

/* Answers with one that is made; the usual headers come with it, but for those in `other`: pairs, ended by NULL. */
void front_answer_with(struct front_exchange *x, unsigned status, struct MHD_Response *r, const char *type,
                       const char *const *other);

/* -- front_page.c: the files of the dashboard ---------------------------------------------------------------------------- */

/* x->page, if the path is one of them. 0, or -EINVAL with *fault: another method than GET and HEAD. */
struct uri;
int front_page_find(struct front_exchange *x, const char *method, const struct uri *u, struct front_fault *fault);
void front_page_answer(struct front_exchange *x);

/* -- front_session.c: its sessions --------------------------------------------------------------------------------------- */

/* Takes the two secrets of a session. 1: they are there, 0: there is no cookie, -EINVAL with *fault: not from the dashboard's own page */
int front_session_take(struct front_exchange *x, const char *method, struct front_fault *fault);
/* Makes the cookie of "COOKIE NUL JSON". */
void front_session_begin(struct front_exchange *x, unsigned status, struct api_msg *m);
void front_session_end(struct front_exchange *x);
/* Whether the client of a WebSocket offers our protocol, which is then to be accepted. */
#define FRONT_PROTOCOL "bawn.terminal"
bool front_session_offered(struct front_exchange *x);

/* -- front_mcp.c: the front of `bawn mcp --http` ------------------------------------------------------------------------- */

struct route_match front_mcp_route(const struct uri *u, int method);
/* 0, or -EINVAL with *fault: a page of another site asks. */
int front_mcp_origin(struct front_exchange *x, struct front_fault *fault);
/* The body as a field. 0, -EINVAL with *fault, -E2BIG, -ENOMEM */
int front_mcp_body(struct front_exchange *x, struct front_fault *fault);
void front_mcp_answer(struct front_exchange *x, struct api_msg *m); /* takes the descriptor */

/* -- front_source.c ------------------------------------------------------------------------------------------------------ */

void front_source_begin(struct front_exchange *x, struct api_msg *m); /* takes the descriptor */
void front_source_outcome(struct front_exchange *x, struct api_msg *m);
void front_source_last(struct front_exchange *x, uint64_t size);
void front_source_tick(struct front_exchange *x, uint64_t now_ms);

/* -- front_upload.c ------------------------------------------------------------------------------------------------------ */

void front_upload_begin(struct front_exchange *x, int fd);
/* Returns how many bytes were taken; suspends if there is no room for all. */
size_t front_upload_write(struct front_exchange *x, const char *data, size_t len);
void front_upload_end(struct front_exchange *x);

/* -- front_terminal.c ---------------------------------------------------------------------------------------------------- */

void front_terminal_upgrade(void *cls, struct MHD_Connection *mhd, void *context, const char *extra, size_t n_extra,
                            MHD_socket sock, struct MHD_UpgradeResponseHandle *handle);
void front_terminals_tick(struct front_server *f, uint64_t now_ms);
void front_terminals_drain(struct front_server *f);

/* -- front.c ------------------------------------------------------------------------------------------------------------- */

/* Serves until bawnd is gone or everything is drained. The jail is in place. 0 or -errno */
int front_serve(int core, struct err *err);
