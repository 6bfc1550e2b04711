/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header fields of one message, HTTP/1 or HTTP/2: a list, and the few names that mean something to the gate itself, found
 * once per field. httpx.h has the part that hooks use.
 */
#pragma once

#include "gateway/http/httpx.h"

struct buf;

enum http_name {
    HTTP_NAME_OTHER,
    HTTP_NAME_ACCEPT,
    HTTP_NAME_CONNECTION,
    HTTP_NAME_CONTENT_LENGTH,
    HTTP_NAME_EXPECT,
    HTTP_NAME_HOST,
    HTTP_NAME_HTTP2_SETTINGS,
    HTTP_NAME_KEEP_ALIVE,
    HTTP_NAME_PROXY_AUTHENTICATE,
    HTTP_NAME_PROXY_AUTHORIZATION,
    HTTP_NAME_PROXY_CONNECTION,
    HTTP_NAME_TE,
    HTTP_NAME_TRANSFER_ENCODING,
    HTTP_NAME_UPGRADE,
    HTTP_NAMES
};

enum { HTTP_HEAD_EXTRA = 16 }; /* fields that hooks may add to HTTPX_HEADERS_MAX */

void http_head_done(struct http_head *h);
void http_head_clear(struct http_head *h); /* keeps some memory for the next message */

/* name and value stay where they are, with a NUL behind each. -E2BIG past HTTPX_HEADERS_MAX, -ENOMEM */
int http_head_add_ref(struct http_head *h, char *name, size_t name_len, char *value, size_t value_len);
/* Copies. */
int http_head_add(struct http_head *h, const char *name, size_t name_len, const char *value, size_t value_len);

/* The only field of this name, NULL if there is none; *ret_many is set if there are more. */
const struct http_header *http_head_one(const struct http_head *h, enum http_name name, bool *ret_many);

/*
 * Takes away what is about this connection only (RFC 9110, 7.6.1), and what Connection names, and the fields that are written
 * anew: Host, Content-Length, Transfer-Encoding. What is left goes on.
 */
void http_head_strip(struct http_head *h);
/* The same for trailers, where fields that say how to read or route a message are not allowed at all (RFC 9110, 6.5.1). */
void http_head_strip_trailers(struct http_head *h);
/* What some servers take for the method or the path: rules about these would judge the wrong one. Trailers never have them. */
void http_head_strip_overrides(struct http_head *h);
/* "name: value\r\n" of every field. */
void http_head_write(const struct http_head *h, struct buf *b);
size_t http_head_size(const struct http_head *h); /* bytes that http_head_write() adds, at most */

/* A copy of both, in one, that is zeroed when http_head_wipe(), http_head_clear() or http_head_done() is called. NULL: no
 * memory. */
char *http_head_keep_secret(struct http_head *h, const char *a, size_t a_len, const char *b, size_t b_len);
/* For a head that was written, or never will be: zeroes what is secret, and takes those fields out. */
void http_head_wipe(struct http_head *h);

/* Is word one of the comma-separated tokens of list? Case does not count. */
bool http_list_has(const char *list, const char *word);

bool http_is_token(const char *s, size_t len);
/* No control byte but HTAB. */
bool http_is_value(const char *s, size_t len);
