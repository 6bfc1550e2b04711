/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and tokens: digits of base 62 by rejection, so that each is as likely as the others. */
#include "os/randid.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"

static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
enum { BASE = 62, FAIR = 256 - 256 % BASE, TOKEN_PREFIX = 5 };
static const char token_prefix[] = "bawn_";

static int add_digits(char *to, size_t n) {
    unsigned char bytes[64];

    for (size_t have = 0; have < n;) {
        ssize_t got = getrandom(bytes, sizeof bytes, 0);

        if (got < 0)
            return -errno;
        for (ssize_t i = 0; i < got && have < n; i++)
            if (bytes[i] < FAIR)
                to[have++] = digits[bytes[i] % BASE];
    }
    explicit_bzero(bytes, sizeof bytes);
    to[n] = 0;
    return 0;
}

int randid_make(const char *prefix, char ret[static RANDID_SIZE]) {
    snprintf(ret, RANDID_SIZE, "%.*s_", RANDID_PREFIX, prefix);
    return add_digits(ret + RANDID_PREFIX + 1, RANDID_DIGITS);
}

static bool digits_only(const char *s, size_t n) {
    return strspn(s, digits) == n && !s[n];
}

bool randid_is(const char *id, const char *prefix) {
    return strncmp(id, prefix, RANDID_PREFIX) == 0 && id[RANDID_PREFIX] == '_' &&
           digits_only(id + RANDID_PREFIX + 1, RANDID_DIGITS);
}

int token_make(char ret[static TOKEN_SIZE]) {
    snprintf(ret, TOKEN_SIZE, "%s", token_prefix);
    return add_digits(ret + TOKEN_PREFIX, TOKEN_DIGITS);
}

bool token_hash(const char *token, size_t len, unsigned char ret[static SHA256_LEN]) {
    char text[TOKEN_SIZE];
    bool good;

    if (len != TOKEN_SIZE - 1)
        return false;
    memcpy(text, token, len);
    text[len] = 0;
    good = str_starts(text, token_prefix) && digits_only(text + TOKEN_PREFIX, TOKEN_DIGITS);
    if (good)
        sha256_of(text, len, ret);
    explicit_bzero(text, sizeof text);
    return good;
}

bool token_same(const unsigned char *a, const unsigned char *b) {
    unsigned char differs = 0;

    for (size_t i = 0; i < SHA256_LEN; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}
