/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an HTTP/1 message, read so that there is one reading only (ATTACKS 54): lines end with CRLF, no folded line, no
 * space before a colon, no control byte, one Content-Length or "Transfer-Encoding: chunked", never both. llhttp then reads
 * the same bytes, as a second opinion: where the two do not say the same about framing, the message is refused.
 */
#pragma once

#include "gateway/http/httpx_priv.h"

enum { H1_CONNECTION_MAX = 2048 }; /* bytes of all Connection fields: each word in them is compared with each name */

struct h1_head {
    struct buf raw; /* as it came; fields point into it */
    size_t line;    /* bytes so far of the line that is being read */
    struct http_head fields;

    int minor; /* HTTP/1.minor */
    char *method, *target;
    size_t target_len;
    int status;
    char *reason;

    bool has_length, chunked;
    uint64_t length;
    bool close, keep_alive; /* Connection says so */
    bool websocket;         /* Upgrade and Connection say so */
    bool expect;
};

void h1_head_init(struct h1_head *h);
void h1_head_done(struct h1_head *h);
void h1_head_clear(struct h1_head *h);

/* Takes bytes up to the empty line: *ret_used of them. 1: the head is whole. 0: there is more of it. Also for trailers. */
int h1_head_take(struct h1_head *h, const char *p, size_t n, size_t *ret_used, struct httpx_refusal *why);

/* Of a whole head. false: *why says why. */
bool h1_head_parse_request(struct h1_head *h, struct httpx_refusal *why);
bool h1_head_parse_response(struct h1_head *h, struct httpx_refusal *why);
bool h1_head_parse_trailers(struct h1_head *h, struct httpx_refusal *why);
