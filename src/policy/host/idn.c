/* SPDX-License-Identifier: Apache-2.0 */
/* International host names. */
#include "policy/host/idn.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/host/punycode.h"

enum script { ASCII_LETTERS, LATIN, GREEK, CYRILLIC, ARMENIAN, GEORGIAN, JAPANESE, HANGUL, SCRIPTS };
static_assert(SCRIPTS <= 32, "one bit each");

/* Small letters that are PVALID (RFC 5892), equal to their own NFC and case folding, and no neighbour of which can make them
 * another character. Left out: ß and ς (changed between IDNA 2003 and 2008), ı (folds by language), ŉ ſ ŀ (compatibility). */
static const struct {
    uint32_t first, last, step;
    enum script script;
} letters[] = {
    {0x00e0, 0x00f6, 1, LATIN},    {0x00f8, 0x00ff, 1, LATIN},    {0x0101, 0x012f, 2, LATIN},    {0x0135, 0x0137, 2, LATIN},
    {0x013a, 0x013e, 2, LATIN},    {0x0142, 0x0148, 2, LATIN},    {0x014b, 0x0177, 2, LATIN},    {0x017a, 0x017e, 2, LATIN},
    {0x01a1, 0x01a1, 1, LATIN},    {0x01b0, 0x01b0, 1, LATIN},    {0x0219, 0x021b, 2, LATIN},    {0x1ea1, 0x1ef9, 2, LATIN},
    {0x0390, 0x0390, 1, GREEK},    {0x03ac, 0x03c1, 1, GREEK},    {0x03c3, 0x03ce, 1, GREEK},    {0x0430, 0x045f, 1, CYRILLIC},
    {0x0491, 0x0491, 1, CYRILLIC}, {0x0561, 0x0586, 1, ARMENIAN}, {0x10d0, 0x10f0, 1, GEORGIAN}, {0x3041, 0x3096, 1, JAPANESE},
    {0x30a1, 0x30fa, 1, JAPANESE}, {0x30fc, 0x30fc, 1, JAPANESE}, {0x4e00, 0x9fef, 1, JAPANESE}, {0xac00, 0xd7a3, 1, HANGUL},
};

/* Scripts whose letters do not look like ASCII ones, so that one label may have both. */
static const uint32_t beside_ascii = 1u << LATIN | 1u << JAPANESE | 1u << HANGUL;

/* What no registry lets into a name, in whatever form: controls, spaces, invisible and direction marks, dots and slashes that
 * only look so, wide forms of ASCII, surrogates, private use, tags. */
static const struct {
    uint32_t first, last;
} refused[] = {
    {0x80, 0xa0},       {0xad, 0xad},       {0x34f, 0x34f},     {0x600, 0x605},      {0x61c, 0x61c},     {0x6dd, 0x6dd},
    {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x115f, 0x1160},    {0x1680, 0x1680},   {0x17b4, 0x17b5},
    {0x180b, 0x180f},   {0x2000, 0x206f},   {0x2215, 0x2215},   {0x3000, 0x3000},    {0x3002, 0x3002},   {0x3164, 0x3164},
    {0xd800, 0xf8ff},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xff00, 0xffff},    {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
    {0x13430, 0x1345f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff},
};

static int find_script(uint32_t c, enum script *ret) {
    if ((c >= '0' && c <= '9') || c == '-')
        return 0;
    if (c >= 'a' && c <= 'z') {
        *ret = ASCII_LETTERS;
        return 1;
    }
    for (size_t i = 0; i < ARRAY_LEN(letters); i++)
        if (c >= letters[i].first && c <= letters[i].last && (c - letters[i].first) % letters[i].step == 0) {
            *ret = letters[i].script;
            return 1;
        }
    return -EINVAL;
}

static bool is_capital(uint32_t c) {
    return (c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3ab) || (c >= 0x400 && c <= 0x42f) ||
           (c >= 0x531 && c <= 0x556);
}

/* UTF-8 that str_utf8_len() has accepted. */
static uint32_t utf8_point(const unsigned char *s, size_t n) {
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = s[0] & mask[n];

    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3f);
    return c;
}

static int read_points(const char *label, size_t len, uint32_t points[static PUNYCODE_POINTS_MAX], struct err *err) {
    size_t count = 0;

    for (size_t i = 0, n; i < len; i += n) {
        char one[5] = {0};

        memcpy(one, label + i, MIN_OF(len - i, (size_t)4));
        n = one[0] ? str_utf8_len(one) : 0;
        if (n == 0)
            return err_set(err, -EINVAL, "the name has a byte 0x%02x that is not UTF-8", (unsigned char)label[i]);
        if (count == PUNYCODE_POINTS_MAX)
            return err_set(err, -EINVAL, "a part of the name is longer than %d characters", IDN_LABEL_MAX);
        points[count++] = utf8_point((const unsigned char *)one, n);
        if (points[count - 1] >= 'A' && points[count - 1] <= 'Z')
            points[count - 1] |= 0x20;
    }
    return (int)count;
}

static int check_letters(const uint32_t *points, size_t n, struct err *err) {
    uint32_t seen = 0, other;

    for (size_t i = 0; i < n; i++) {
        enum script s = ASCII_LETTERS;
        int r = find_script(points[i], &s);

        if (r < 0 && is_capital(points[i]))
            return err_set(err, r, "U+%04X is a capital letter (write the name in small letters)", points[i]);
        if (r < 0)
            return err_set(err, r, "U+%04X is not read alike by all programs (write the name in its ASCII form, xn--...)",
                           points[i]);
        if (r > 0)
            seen |= 1u << s;
    }
    other = seen & ~(1u << ASCII_LETTERS);
    if ((other & (other - 1)) || (other != seen && !(other & beside_ascii)))
        return err_set(err, -EINVAL, "a part of the name mixes letters of several scripts (write it in its ASCII form, xn--...)");
    return 0;
}

int idn_to_ascii(const char *label, size_t len, char out[static IDN_LABEL_MAX], struct err *err) {
    static const char prefix[] = {'x', 'n', '-', '-'};
    uint32_t points[PUNYCODE_POINTS_MAX];
    int n, r;

    n = read_points(label, len, points, err);
    if (n < 0)
        return n;
    r = check_letters(points, (size_t)n, err);
    if (r < 0)
        return r;
    if (n == 0 || points[0] == '-' || points[n - 1] == '-' || (n >= 4 && points[2] == '-' && points[3] == '-'))
        return err_set(err, -EINVAL, "a part of the name has a hyphen where none may stand");
    r = punycode_encode(points, (size_t)n, out + sizeof prefix, IDN_LABEL_MAX - sizeof prefix);
    if (r < 0)
        return err_set(err, r, "a part of the name is longer than %d characters in its ASCII form", IDN_LABEL_MAX);
    memcpy(out, prefix, sizeof prefix);
    return r + (int)sizeof prefix;
}

static int check_point(uint32_t c, struct err *err) {
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'
                   ? 0
                   : err_set(err, -EINVAL, "a part of the name hides the character 0x%02x in its xn-- form", c);
    if (is_capital(c))
        return err_set(err, -EINVAL, "a part of the name hides the capital letter U+%04X in its xn-- form", c);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (c >= refused[i].first && c <= refused[i].last)
            return err_set(err, -EINVAL, "a part of the name hides the character U+%04X in its xn-- form", c);
    return 0;
}

int idn_check_ascii(const char *label, size_t len, struct err *err) {
    char again[IDN_LABEL_MAX];
    uint32_t points[PUNYCODE_POINTS_MAX];
    int n, r;
    bool other = false;

    n = punycode_decode(label + 4, len - 4, points, ARRAY_LEN(points));
    r = n < 0 ? n : punycode_encode(points, (size_t)n, again, sizeof again);
    if (r < 0 || (size_t)r != len - 4 || memcmp(again, label + 4, len - 4) != 0)
        return err_set(err, -EINVAL, "a part of the name starts with xn-- but is no encoded name");
    for (int i = 0; i < n; i++) {
        r = check_point(points[i], err);
        if (r < 0)
            return r;
        other |= points[i] >= 0x80;
    }
    return other ? 0 : err_set(err, -EINVAL, "a part of the name starts with xn-- but encodes nothing");
}
