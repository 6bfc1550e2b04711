/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal and base64. */
#include "base/hex.h"

#include "base/buf.h"

int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void hex_encode(const void *data, size_t len, char *out) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * len] = 0;
}

bool hex_decode(const char *text, size_t len, void *out) {
    unsigned char *to = out;

    for (size_t i = 0; i < len; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return false;
        to[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

bool hex_is_lower(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (hex_digit(text[i]) < 0 || (text[i] >= 'A' && text[i] <= 'F'))
            return false;
    return true;
}

int hex_percent(const char *p, size_t len) {
    unsigned char byte;

    return len > 2 && p[0] == '%' && hex_decode(p + 1, 1, &byte) ? byte : -1;
}

/* Three bytes, the missing ones as 0, to four characters. */
static void base64_group(const unsigned char *p, size_t len, const char *last_two, char out[static 4]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint32_t v = (uint32_t)p[0] << 16 | (len > 1 ? (uint32_t)p[1] << 8 : 0) | (len > 2 ? p[2] : 0u);

    for (int i = 0; i < 4; i++) {
        uint32_t six = v >> (18 - 6 * i) & 63;

        out[i] = six < 62 ? digits[six] : last_two[six - 62];
    }
}

void base64_add(struct buf *b, const void *data, size_t len) {
    const unsigned char *p = data;
    char four[4];

    for (size_t i = 0; i < len; i += 3) {
        base64_group(p + i, len - i, "+/", four);
        memset(four + MIN_OF(len - i, (size_t)3) + 1, '=', 3 - MIN_OF(len - i, (size_t)3));
        buf_add(b, four, sizeof four);
    }
}

void base64_url(const void *data, size_t len, char *out) {
    const unsigned char *p = data;
    char four[4];

    for (size_t i = 0; i < len; i += 3) {
        size_t n = MIN_OF(len - i, (size_t)3) + 1;

        base64_group(p + i, len - i, "-_", four);
        memcpy(out, four, n);
        out += n;
    }
    *out = 0;
}
