/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-1 (FIPS 180-4), for the names that git gives to objects and for nothing else: an author of two contents can
 * give them the same digest, so it proves nothing about content that others wrote. All else uses base/sha256.h.
 */
#pragma once

#include "base/macros.h"

enum { SHA1_LEN = 20 };

struct sha1 {
    uint32_t state[5];
    uint64_t total; /* bytes so far */
    unsigned char block[64];
};

void sha1_init(struct sha1 *h);
void sha1_add(struct sha1 *h, const void *data, size_t len);
void sha1_end(struct sha1 *h, unsigned char out[static SHA1_LEN]);
