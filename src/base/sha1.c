/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 (FIPS 180-4). */
#include "base/sha1.h"

#include "base/sha256.h"

static uint32_t rotate(uint32_t x, unsigned n) {
    return x << n | x >> (32 - n);
}

static void schedule(const unsigned char *block, uint32_t w[static 80]) {
    for (size_t i = 0; i < 16; i++, block += 4)
        w[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
}

static uint32_t choose(uint32_t x, uint32_t y, uint32_t z) {
    return (x & y) ^ (~x & z);
}

static uint32_t parity(uint32_t x, uint32_t y, uint32_t z) {
    return x ^ y ^ z;
}

static uint32_t majority(uint32_t x, uint32_t y, uint32_t z) {
    return (x & y) ^ (x & z) ^ (y & z);
}

static void rounds(uint32_t s[static 5], const uint32_t *w, uint32_t constant, uint32_t (*mix)(uint32_t, uint32_t, uint32_t)) {
    for (size_t i = 0; i < 20; i++) {
        uint32_t t = rotate(s[0], 5) + mix(s[1], s[2], s[3]) + s[4] + constant + w[i];

        s[4] = s[3];
        s[3] = s[2];
        s[2] = rotate(s[1], 30);
        s[1] = s[0];
        s[0] = t;
    }
}

/* FIPS 180-4, 4.1.1 and 4.2.1: each twenty rounds have a function and a constant of their own. */
static void compress(uint32_t state[static 5], const unsigned char *block) {
    uint32_t w[80], s[5];

    schedule(block, w);
    memcpy(s, state, sizeof s);
    rounds(s, w, 0x5a827999, choose);
    rounds(s, w + 20, 0x6ed9eba1, parity);
    rounds(s, w + 40, 0x8f1bbcdc, majority);
    rounds(s, w + 60, 0xca62c1d6, parity);
    for (size_t i = 0; i < 5; i++)
        state[i] += s[i];
}

void sha1_init(struct sha1 *h) {
    static const uint32_t start[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

    memcpy(h->state, start, sizeof start);
    h->total = 0;
}

void sha1_add(struct sha1 *h, const void *data, size_t len) {
    const unsigned char *p = data;

    while (len) {
        size_t used = h->total % sizeof h->block;
        size_t n = MIN_OF(len, sizeof h->block - used);

        memcpy(h->block + used, p, n);
        h->total += n;
        p += n;
        len -= n;
        if (used + n == sizeof h->block)
            compress(h->state, h->block);
    }
}

void sha1_end(struct sha1 *h, unsigned char out[static SHA1_LEN]) {
    unsigned char tail[SHA_TAIL_MAX];

    sha1_add(h, tail, sha_tail(h->total, tail));
    sha_bytes(h->state, SHA1_LEN, out);
}
