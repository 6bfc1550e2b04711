/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http/h1_chunk.h"
#include "base/hex.h"

#include <errno.h>

static int fail(struct httpx_refusal *why, const char *text) {
    httpx_refuse(why, 400, POLICY_NOT_HTTP, text);
    return -EPROTO;
}

static int take_size(struct h1_chunk *c, char byte, struct httpx_refusal *why) {
    int digit = hex_digit(byte);

    if (digit >= 0) {
        if (++c->digits > H1_CHUNK_DIGITS_MAX)
            return fail(why, "A chunk is too large");
        c->left = c->left << 4 | (unsigned)digit;
        return 0;
    }
    if (c->digits == 0 || (byte != '\r' && byte != ';'))
        return fail(why, "A chunk's size is not a number");
    c->state = byte == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
    return 0;
}

static int take_extension(struct h1_chunk *c, char byte, struct httpx_refusal *why) {
    if (byte == '\r') {
        c->state = CHUNK_SIZE_LF;
        return 0;
    }
    if (!http_is_value(&byte, 1) || ++c->extension > H1_CHUNK_EXTENSION_MAX)
        return fail(why, "A chunk's extension is too long, or has a control byte in it");
    return 0;
}

/* Everything but data and trailers: one byte. */
static int take_byte(struct h1_chunk *c, char byte, struct httpx_refusal *why) {
    switch (c->state) {
    case CHUNK_SIZE:
        return take_size(c, byte, why);
    case CHUNK_EXTENSION:
        return take_extension(c, byte, why);
    case CHUNK_SIZE_LF:
        if (byte != '\n')
            return fail(why, "A chunk's size has no line end");
        c->state = c->left ? CHUNK_DATA : CHUNK_TRAILERS;
        return 0;
    case CHUNK_DATA_CR:
        if (byte != '\r')
            return fail(why, "A chunk is longer than its size");
        c->state = CHUNK_DATA_LF;
        return 0;
    case CHUNK_DATA_LF:
        if (byte != '\n')
            return fail(why, "A chunk has no line end");
        *c = (struct h1_chunk){.state = CHUNK_SIZE};
        return 0;
    case CHUNK_DATA:
    case CHUNK_TRAILERS:
    case CHUNK_END:
        break;
    }
    BUG("a byte that is no part of the framing");
}

static int take_trailers(struct h1_chunk *c, const char *p, size_t n, size_t *ret_used, struct h1_head *trailers,
                         struct httpx_refusal *why) {
    int r = h1_head_take(trailers, p, n, ret_used, why);

    if (r <= 0)
        return r;
    if (!h1_head_parse_trailers(trailers, why))
        return -EPROTO;
    c->state = CHUNK_END;
    return 0;
}

int h1_chunk_take(struct h1_chunk *c, const char *p, size_t n, size_t *ret_used, const char **ret_piece, size_t *ret_len,
                  struct h1_head *trailers, struct httpx_refusal *why) {
    size_t i = 0;

    *ret_len = 0;
    if (c->state == CHUNK_TRAILERS)
        return take_trailers(c, p, n, ret_used, trailers, why);
    while (i < n && c->state != CHUNK_DATA && c->state != CHUNK_TRAILERS) {
        int r = take_byte(c, p[i++], why);

        if (r < 0)
            return r;
    }
    if (c->state == CHUNK_DATA && i < n) {
        *ret_piece = p + i;
        *ret_len = MIN_OF(c->left, (uint64_t)(n - i));
        c->left -= *ret_len;
        i += *ret_len;
        if (c->left == 0)
            c->state = CHUNK_DATA_CR;
    }
    *ret_used = i;
    return 0;
}
