/* SPDX-License-Identifier: Apache-2.0 */
#include "review/report/escape.h"

#include "base/hex.h"
#include "base/str.h"

/* Unicode 15, Default_Ignorable_Code_Point and Bidi_Control, line and paragraph separators, C0 and C1. Not the emoji form
 * (U+FE0F): it is in every README, and two of a kind cannot carry a message. */
static const struct {
    uint32_t first, last;
} deceptive[] = {
    {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},    {0x034f, 0x034f}, {0x061c, 0x061c}, {0x115f, 0x1160},
    {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},    {0x2028, 0x202e}, {0x2060, 0x206f}, {0x2800, 0x2800},
    {0x3164, 0x3164},   {0xfe00, 0xfe0e},   {0xfeff, 0xfeff},    {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}, {0xf0000, 0x10ffff},
};

bool escape_deceptive(uint32_t code) {
    size_t low = 0, high = ARRAY_LEN(deceptive);

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (code > deceptive[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ARRAY_LEN(deceptive) && code >= deceptive[low].first;
}

/* The character at s, of which `left` bytes may be read. Returns its length, 0 if it is not UTF-8. */
static size_t decode(const char *s, size_t left, uint32_t *ret) {
    static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    char few[5] = {0};
    size_t n;

    memcpy(few, s, MIN_OF(left, (size_t)4)); /* what lies behind may not be ours to read */
    if (few[0] == 0) {
        *ret = 0;
        return 1;
    }
    n = str_utf8_len(few);
    if (n == 0)
        return 0;
    *ret = (unsigned char)few[0] & first_bits[n];
    for (size_t i = 1; i < n; i++)
        *ret = *ret << 6 | ((unsigned char)few[i] & 0x3f);
    return n;
}

static void add_visible(struct buf *b, const char *s, size_t len, bool tabs) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t code = 0;
        size_t plain = i;

        while (plain < len && s[plain] >= 0x20 && s[plain] < 0x7f)
            plain++;
        n = plain - i;
        if (n > 0) {
            buf_add(b, s + i, n);
            continue;
        }
        n = decode(s + i, len - i, &code);
        if (n == 0 || (n == 1 && code != '\t') || (code == '\t' && !tabs))
            buf_addf(b, "\\x%02x", (unsigned char)s[i]);
        else if (code != '\t' && escape_deceptive(code))
            buf_addf(b, "\\u{%x}", code);
        else
            buf_add(b, s + i, n);
        n = MAX_OF(n, (size_t)1);
    }
}

void escape_text(struct buf *b, const char *s) {
    add_visible(b, s, strlen(s), false);
}

void escape_content(struct buf *b, const char *s, size_t len, bool keep_cr) {
    bool cr = keep_cr && len > 0 && s[len - 1] == '\r';

    add_visible(b, s, len - cr, true);
    if (cr)
        buf_addc(b, '\r');
}

static void add_json_escape(struct buf *b, uint32_t code) {
    if (code >= 0x10000)
        buf_addf(b, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
    else
        buf_addf(b, "\\u%04x", code);
}

void escape_json(struct buf *b, const char *s, size_t len) {
    buf_addc(b, '"');
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t code = 0;

        n = decode(s + i, len - i, &code);
        if (n == 0)
            buf_adds(b, "\xef\xbf\xbd");
        else if (code == '"' || code == '\\')
            buf_addf(b, "\\%c", (int)code);
        else if (code == '\n')
            buf_adds(b, "\\n");
        else if (escape_deceptive(code))
            add_json_escape(b, code);
        else
            buf_add(b, s + i, n);
        n = MAX_OF(n, (size_t)1);
    }
    buf_addc(b, '"');
}

static bool git_plain(const char *s, size_t left, size_t *ret_n) {
    uint32_t code = 0;

    *ret_n = decode(s, left, &code);
    if (*ret_n == 0) {
        *ret_n = 1;
        return false;
    }
    return !escape_deceptive(code) && code != '"' && code != '\\';
}

static bool needs_quotes(const char *s) {
    for (size_t len = strlen(s), i = 0, n; i < len; i += n)
        if (!git_plain(s + i, len - i, &n))
            return true;
    return false;
}

void escape_git_name(struct buf *b, const char *prefix, const char *s) {
    bool quotes = needs_quotes(s) || (*prefix && strchr(s, ' '));
    size_t len = strlen(s);

    buf_adds(b, quotes ? "\"" : "");
    buf_adds(b, prefix);
    for (size_t i = 0, n; i < len; i += n) {
        if (git_plain(s + i, len - i, &n))
            buf_add(b, s + i, n);
        else
            for (size_t k = 0; k < n; k++)
                buf_addf(b, "\\%03o", (unsigned char)s[i + k]);
    }
    buf_adds(b, quotes ? "\"" : "");
}

void escape_uri(struct buf *b, const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

    for (; *s; s++)
        if (strchr(plain, *s))
            buf_addc(b, *s);
        else
            buf_addf(b, "%%%02X", (unsigned char)*s);
}

void escape_base64(struct buf *b, const void *data, size_t len) {
    base64_add(b, data, len);
}
