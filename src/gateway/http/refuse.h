/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a refusal is said, in the protocol spoken (N7): with a stable code, the reason and what would help. Short, the host and who
 * denied it first: many clients show the first line only, or nothing but the words behind the status. Nothing in it is as hostile
 * bytes came.
 */
#pragma once

#include "policy/rules/verdict.h"

struct buf;

enum { REFUSE_BODY_MAX = 64 * 1024, REFUSE_LINE_SIZE = 512 };

#define REFUSE_WHY "http://bawn.internal/why"

/* An answer of our own. */
struct httpx_reply {
    int status;
    const char *type; /* of the body */
    const char *code; /* of a denial; NULL: it is none */
    const void *body;
    size_t len;
    char words[REFUSE_LINE_SIZE]; /* behind the status, HTTP/1.1; "": the usual ones */
};

int refuse_status(
    const struct policy_verdict *v); /* 403; 421: another name; 400: not HTTP, bad path; 413; 502: no address, ... */
/* "Bawn denied example.com:443 (no rule allows it), see http://bawn.internal/why": printable, one line, never cut within the host. */
void refuse_line(const struct policy_verdict *v, const char *host, uint16_t port, char out[static REFUSE_LINE_SIZE]);
/* json: {"error": {"code", "host", "port", "rule", "layer", "reason", "hint", "message"}}, for a client that wants it most; else
 * text: the line, the reason, the hint, the code. */
void refuse_body(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *b);
/* The same as a reply, which points into body. */
struct httpx_reply refuse_reply(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *body);
/* As a whole HTTP/1.1 answer with "Connection: close". */
void refuse_http1(const struct policy_verdict *v, const char *host, uint16_t port, bool json, struct buf *b);

void http_reply_write(const struct httpx_reply *r, bool keep, bool with_body, struct buf *b); /* HTTP/1.1 */
const char *http_words_of(int status);                                                        /* "Forbidden" */
