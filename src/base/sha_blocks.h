/* SPDX-License-Identifier: Apache-2.0 */
/* What SHA-1 and SHA-256 share (FIPS 180-4): blocks of 64 bytes, the padding behind the last, and the digest's byte order. */
#pragma once

#include <string.h>

#include "base/macros.h"

struct sha_blocks {
    uint64_t total; /* bytes so far */
    unsigned char block[64];
};

static inline void sha_blocks_add(struct sha_blocks *b, const void *data, size_t len, uint32_t *state,
                                  void (*compress)(uint32_t *state, const unsigned char *block)) {
    const unsigned char *p = data;

    while (len) {
        size_t used = b->total % sizeof b->block;
        size_t n = MIN_OF(len, sizeof b->block - used);
        bool whole = n == sizeof b->block; /* needs no copy */

        if (!whole)
            memcpy(b->block + used, p, n);
        if (used + n == sizeof b->block)
            compress(state, whole ? p : b->block);
        b->total += n;
        p += n;
        len -= n;
    }
}

static inline void sha_blocks_end(struct sha_blocks *b, unsigned char *out, size_t out_len, uint32_t *state,
                                  void (*compress)(uint32_t *state, const unsigned char *block)) {
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = b->total * 8;
    size_t used = b->total % sizeof b->block;
    unsigned char length[8];

    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha_blocks_add(b, padding, (used < 56 ? 56 : 120) - used, state, compress);
    sha_blocks_add(b, length, sizeof length, state, compress);
    for (size_t i = 0; i < out_len; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}
