/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between bawnd and bawn-front; the source of truth is spec/api-protocol.md.
 *
 * One message is one packet. A body that is larger than API_INLINE_MAX is in a sealed memfd, which is made and read here: callers see
 * only body and len. Everything that came is checked: kind, flags, direction, length, number of descriptors, seals.
 */
#pragma once

#include "base/macros.h"

struct err;

#define API_MAGIC 0x69706162u /* "bapi" */

enum {
    API_FD = 3, /* where bawn-front finds its socket */
    API_HEADER = 32,
    API_INLINE_MAX = 48 * 1024,
    API_BODY_MAX = 32 * 1024 * 1024,
    API_FDS_MAX = 4,    /* with the memfd */
    API_LISTEN_MAX = 2, /* listening sockets in a START */
};

enum api_kind {
    API_START = 1,
    API_CONNECTION,
    API_ANSWER,
    API_UPLOAD,
    API_OUTCOME,
    API_LAST,
    API_DRAIN,
    API_REQUEST = 16,
    API_CANCEL,
    API_GONE,
};

enum {
    API_FLAG_MEMFD = 1,     /* set and removed here */
    API_FLAG_PART = 2,      /* of an ANSWER: a part of a regular file */
    API_FLAG_STREAM = 4,    /* a descriptor to read to its end */
    API_FLAG_EVENTS = 8,    /* a regular file that grows by lines */
    API_FLAG_TERMINAL = 16, /* for a WebSocket */
    API_FLAG_JSON = 32,     /* a descriptor to read to its end; JSON if OUTCOME says 0 */
    API_FLAG_EXEC = 64,     /* two pipes: stdout and stderr of a command */
};

/* Fields of START, written as those of requests (apifield.h). */
enum api_conf {
    API_CONF_TABLES = 1,      /* API_TABLES: both sides were built from the same openapi.yaml */
    API_CONF_JSON_MAX,        /* bytes of a JSON body */
    API_CONF_UPLOAD_MAX,      /* bytes of another body */
    API_CONF_HEADER_SECONDS,  /* from the first byte of a request, or of a connection, to the end of its headers */
    API_CONF_BODY_SECONDS,    /* for a JSON body, all of it */
    API_CONF_STALL_SECONDS,   /* without a byte of another body, or of an answer taken by the client */
    API_CONF_IDLE_SECONDS,    /* between requests */
    API_CONF_COMMENT_SECONDS, /* between comments in a stream of events, and pings of a WebSocket */
    API_CONF_CONNECTIONS_MAX, /* of TCP and unix together */
    API_CONF_PEER_MAX,        /* of these from one address, or of one CONNECTION value (a uid) */
    API_CONF_REQUESTS_MAX,    /* in flight between front and core */
    API_CONF_ANSWER_MAX,      /* bytes of what comes by API_FLAG_JSON */
    API_CONF_HOST,            /* several: names that a Host of TCP may have, without port */
    API_CONF_TLS,             /* 1: the certificate and the key are the last two descriptors */
    API_CONF_VERSION,         /* for the header Server */
    API_CONF_MCP,             /* 1: the front of `bawn mcp --http` (mcproute.h) instead of the API; may be left out */
    API_CONFS
};

struct api_msg {
    uint16_t kind, flags;
    uint64_t request, peer;
    uint32_t value;
    char *body; /* of one that came: malloc'ed, with a NUL behind it */
    size_t len;
    int fds[API_FDS_MAX];
    size_t n_fds;
};

/* Closes what is left in fds, frees the body. Set an fd to -1 to keep it. */
void api_msg_done(struct api_msg *m);

/* Sends; fds stay the caller's. 0, -EAGAIN: the socket is full (of one that does not block), -errno */
int api_msg_send(int sock, const struct api_msg *m, struct err *err);
/* The same in two steps, for one that has to wait: *ret_memfd is -1 or the body's. packet has room for API_HEADER + API_INLINE_MAX. */
int api_msg_pack(const struct api_msg *m, char *packet, size_t *ret_len, int *ret_memfd, struct err *err);

/* Receives one; from_core: what this side expects. 1: *ret is to be done with api_msg_done(), 0: the other side is gone, -EAGAIN,
 * -EBADMSG: the other side is broken or hostile; end it. */
int api_msg_recv(int sock, bool from_core, struct api_msg *ret, struct err *err);
/* The part that looks at the bytes, for fuzzers: as api_msg_recv(), with descriptors that it takes. */
int api_msg_unpack(const char *packet, size_t len, const int *fds, size_t n_fds, bool from_core, struct api_msg *ret,
                   struct err *err);

/* Numbers in bodies. false: the body is too short. */
bool api_msg_u64(const struct api_msg *m, size_t i, uint64_t *ret);
/* The i-th text of a body whose texts have NULs between them; "" if there is none. */
const char *api_msg_text(const struct api_msg *m, size_t i);
