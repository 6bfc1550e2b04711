/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4). */
#include "base/sha256.h"

#include "base/hex.h"

/* FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

static uint32_t load(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The next word of the schedule, in place of the one sixteen before. */
static uint32_t extend(uint32_t w[static 16], size_t i) {
    uint32_t a = w[(i + 1) % 16], b = w[(i + 14) % 16];

    return w[i] += (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[(i + 9) % 16] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
}

/* One step. Instead of moving all eight words on, the next step has them in other places, so that they stay in registers. */
#define STEP(a, b, c, d, e, f, g, h, word)                                                  \
    do {                                                                                    \
        h += (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + (word); \
        d += h;                                                                             \
        h += (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));    \
    } while (0)

/* Eight of them bring every word back to its place. WORD(i): of the message. */
#define EIGHT_STEPS(at, WORD)                                     \
    do {                                                          \
        STEP(a, b, c, d, e, f, g, h, key[at] + WORD(at));         \
        STEP(h, a, b, c, d, e, f, g, key[at + 1] + WORD(at + 1)); \
        STEP(g, h, a, b, c, d, e, f, key[at + 2] + WORD(at + 2)); \
        STEP(f, g, h, a, b, c, d, e, key[at + 3] + WORD(at + 3)); \
        STEP(e, f, g, h, a, b, c, d, key[at + 4] + WORD(at + 4)); \
        STEP(d, e, f, g, h, a, b, c, key[at + 5] + WORD(at + 5)); \
        STEP(c, d, e, f, g, h, a, b, key[at + 6] + WORD(at + 6)); \
        STEP(b, c, d, e, f, g, h, a, key[at + 7] + WORD(at + 7)); \
    } while (0)

#define GIVEN(i) (w[i] = load(block + 4 * (i)))
#define EXTENDED(i) extend(w, i)

static void compress(uint32_t state[static 8], const unsigned char *block) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
    const uint32_t *key = k;
    uint32_t w[16];

    EIGHT_STEPS(0, GIVEN);
    EIGHT_STEPS(8, GIVEN);
    while (key += 16, key < k + 64) {
        EIGHT_STEPS(0, EXTENDED);
        EIGHT_STEPS(8, EXTENDED);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

void sha256_init(struct sha256 *h) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(h->state, start, sizeof start);
    h->total = 0;
}

void sha256_add(struct sha256 *h, const void *data, size_t len) {
    const unsigned char *p = data;

    while (len) {
        size_t used = h->total % sizeof h->block;
        size_t n = MIN_OF(len, sizeof h->block - used);
        bool whole = n == sizeof h->block; /* needs no copy */

        if (!whole)
            memcpy(h->block + used, p, n);
        if (used + n == sizeof h->block)
            compress(h->state, whole ? p : h->block);
        h->total += n;
        p += n;
        len -= n;
    }
}

size_t sha_tail(uint64_t total, unsigned char out[static SHA_TAIL_MAX]) {
    size_t used = total % 64, n = (used < 56 ? 56 : 120) - used;

    memset(out, 0, n);
    out[0] = 0x80;
    for (size_t i = 0; i < 8; i++)
        out[n + i] = (unsigned char)(total * 8 >> (56 - 8 * i));
    return n + 8;
}

void sha_bytes(const uint32_t *state, size_t len, unsigned char *out) {
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_end(struct sha256 *h, unsigned char out[static SHA256_LEN]) {
    unsigned char tail[SHA_TAIL_MAX];

    sha256_add(h, tail, sha_tail(h->total, tail));
    sha_bytes(h->state, SHA256_LEN, out);
}

void sha256_end_hex(struct sha256 *h, char out[static SHA256_HEX_SIZE]) {
    unsigned char digest[SHA256_LEN];

    sha256_end(h, digest);
    hex_encode(digest, sizeof digest, out);
}

void sha256_of(const void *data, size_t len, unsigned char out[static SHA256_LEN]) {
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, data, len);
    sha256_end(&h, out);
}

void sha256_hex(const void *data, size_t len, char out[static SHA256_HEX_SIZE]) {
    unsigned char digest[SHA256_LEN];

    sha256_of(data, len, digest);
    hex_encode(digest, sizeof digest, out);
}
