/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 (FIPS 180-4), for recognising content again. Small on purpose: the hot-path binary links no OpenSSL. */
#pragma once

#include "base/macros.h"

enum { SHA256_LEN = 32, SHA256_HEX_SIZE = 2 * SHA256_LEN + 1 };

struct sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes so far */
    unsigned char block[64];
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *data, size_t len);
void sha256_end(struct sha256 *h, unsigned char out[static SHA256_LEN]);

/* The same as lower-case hexadecimal digits with a NUL. */
void sha256_end_hex(struct sha256 *h, char out[static SHA256_HEX_SIZE]);
/* Of all of data at once. */
void sha256_of(const void *data, size_t len, unsigned char out[static SHA256_LEN]);
void sha256_hex(const void *data, size_t len, char out[static SHA256_HEX_SIZE]);

/* What SHA-1 and SHA-256 share: the padding after `total` bytes, whose length is returned, and the state as bytes. */
enum { SHA_TAIL_MAX = 72 };
size_t sha_tail(uint64_t total, unsigned char out[static SHA_TAIL_MAX]);
void sha_bytes(const uint32_t *state, size_t len, unsigned char *out);
