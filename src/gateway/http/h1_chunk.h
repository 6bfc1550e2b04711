/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked coding (RFC 9112, 7.1), strictly: hexadecimal digits only, CRLF everywhere, extensions bounded and not passed on.
 * What comes out are pieces of the body, in place.
 */
#pragma once

#include "gateway/http/h1_head.h"

enum { H1_CHUNK_DIGITS_MAX = 15, H1_CHUNK_EXTENSION_MAX = 1024 };

enum h1_chunk_state {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILERS,
    CHUNK_END
};

struct h1_chunk {
    enum h1_chunk_state state;
    unsigned digits;  /* of the size */
    size_t extension; /* bytes of it */
    uint64_t left;    /* of this chunk */
};

/*
 * Takes some bytes, at least one; *ret_piece, *ret_len: a piece of the body among them (length 0: none). trailers is filled
 * up to the empty line; state is CHUNK_END then. -EPROTO: *why says why.
 */
int h1_chunk_take(struct h1_chunk *c, const char *p, size_t n, size_t *ret_used, const char **ret_piece, size_t *ret_len,
                  struct h1_head *trailers, struct httpx_refusal *why);
