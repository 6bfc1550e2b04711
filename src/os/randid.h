/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that cannot be guessed, and tokens: 22 and 43 digits of base 62, which are 131 and 256 bits of the kernel's. */
#pragma once

#include "base/macros.h"
#include "base/sha256.h"

enum {
    RANDID_DIGITS = 22,
    RANDID_PREFIX = 3,
    RANDID_SIZE = RANDID_PREFIX + 1 + RANDID_DIGITS + 1,
    TOKEN_DIGITS = 43,
    TOKEN_SIZE = 5 + TOKEN_DIGITS + 1, /* "bawn_..." */
};

/* "run_2x9...". prefix: RANDID_PREFIX letters. 0 or -errno */
int randid_make(const char *prefix, char ret[static RANDID_SIZE]);
/* Of a form that randid_make() gives, with this prefix. */
bool randid_is(const char *id, const char *prefix);

/* 0 or -errno. The caller zeroes it. */
int token_make(char ret[static TOKEN_SIZE]);
/* What is stored of a token. false: it has not the form of one. */
bool token_hash(const char *token, size_t len, unsigned char ret[static SHA256_LEN]);
/* In constant time. */
bool token_same(const unsigned char *a, const unsigned char *b);
