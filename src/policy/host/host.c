/* SPDX-License-Identifier: Apache-2.0 */
/* Host names in their one form. */
#include "policy/host/host.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "policy/host/punycode.h"

/* -- names in other scripts ----------------------------------------------------------------------------------------------- */

/*
 * Names in other scripts, the careful way: not all of IDNA, only what every program reads alike.
 *
 *     "bücher"            ->  "xn--bcher-kva"
 *     "xn--bcher-kva"     ->  as it is
 *     "BÜCHER", "straße"  ->  refused: programs disagree about the lower case, and about ß (IDNA 2003 and 2008 differ)
 *
 * A label written in its own script may hold the letters of one script (the table below), digits and hyphens. Scripts that need
 * combining marks or are written from right to left have to be given in their ASCII form, where nothing is left to convert.
 */

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
            return err_set(err, -EINVAL, "a part of the name is longer than %d characters", HOST_LABEL_MAX);
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

/* One label with at least one byte >= 0x80. Returns the length of the ASCII form, which gets no NUL. */
static int idn_to_ascii(const char *label, size_t len, char out[static HOST_LABEL_MAX], struct err *err) {
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
    r = punycode_encode(points, (size_t)n, out + sizeof prefix, HOST_LABEL_MAX - sizeof prefix);
    if (r < 0)
        return err_set(err, r, "a part of the name is longer than %d characters in its ASCII form", HOST_LABEL_MAX);
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

/* A label that starts with "xn--", in lower case: whether it is what an encoder would have written, and nothing invisible. */
static int idn_check_ascii(const char *label, size_t len, struct err *err) {
    char again[HOST_LABEL_MAX];
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

/* -- hosts ----------------------------------------------------------------------------------------------------------------- */

static bool is_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The whole of what came, before anything is taken apart: a NUL must not hide the end from anyone (ATTACKS 46). */
static int check_bytes(const char *data, size_t len, struct err *err) {
    if (len == 0)
        return err_set(err, -EINVAL, "the host name is empty");
    if (len > 4 * (HOST_TEXT_MAX + 1)) /* room for UTF-8 */
        return err_set(err, -EINVAL, "the host name is longer than %d characters", HOST_TEXT_MAX);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];

        if (c == 0)
            return err_set(err, -EINVAL, "the host name has a NUL byte in it");
        if (c == '%')
            return err_set(err, -EINVAL, "the host name has a '%%' (no encoding and no zone is allowed in a host)");
        if (c == '@')
            return err_set(err, -EINVAL, "the host name has an '@' (a user name is not part of the host)");
        if (c == ' ' || (c >= '\t' && c <= '\r'))
            return err_set(err, -EINVAL, "the host name has white space in it");
        if (c < 0x20 || c == 0x7f)
            return err_set(err, -EINVAL, "the host name has the control byte 0x%02x in it", c);
    }
    return 0;
}

static int check_ascii_label(const char *label, size_t len, struct err *err) {
    for (size_t i = 0; i < len; i++)
        if (!is_alnum(label[i]) && label[i] != '-' && label[i] != '_')
            return err_set(err, -EINVAL, "the host name has a '%c', which no name may have", label[i]);
    if (label[0] == '-' || label[len - 1] == '-')
        return err_set(err, -EINVAL, "a part of the host name starts or ends with a hyphen");
    if (len >= 4 && memcmp(label, "xn--", 4) == 0)
        return idn_check_ascii(label, len, err);
    return 0;
}

static int add_label(const char *data, size_t len, struct host *h, struct err *err) {
    char label[HOST_LABEL_MAX];
    bool other = false;
    int r;

    if (len == 0)
        return err_set(err, -EINVAL, "the host name has an empty part (two dots, or a dot at the start)");
    for (size_t i = 0; i < len; i++)
        other |= (unsigned char)data[i] >= 0x80;
    if (!other && len > HOST_LABEL_MAX)
        return err_set(err, -EINVAL, "a part of the host name is longer than %d characters", HOST_LABEL_MAX);
    if (other) {
        r = idn_to_ascii(data, len, label, err);
        if (r < 0)
            return r;
        len = (size_t)r;
    }
    for (size_t i = 0; !other && i < len; i++)
        label[i] = lower(data[i]);
    r = check_ascii_label(label, len, err);
    if (r < 0)
        return r;
    if (h->len + (h->len > 0) + len > HOST_TEXT_MAX)
        return err_set(err, -EINVAL, "the host name is longer than %d characters", HOST_TEXT_MAX);
    if (h->len)
        h->text[h->len++] = '.';
    memcpy(h->text + h->len, label, len);
    h->len += len;
    return 0;
}

/* What inet_aton(), a browser or a resolver may take for a number: decimal, octal, or hexadecimal with 0x. */
static bool is_number(const char *label, size_t len) {
    size_t i = len >= 2 && label[0] == '0' && label[1] == 'x' ? 2 : 0;
    bool hex = i == 2;

    for (; i < len; i++)
        if (!(label[i] >= '0' && label[i] <= '9') && !(hex && label[i] >= 'a' && label[i] <= 'f'))
            return false;
    return true;
}

static int check_last_label(const struct host *h, struct err *err) {
    const char *dot = strrchr(h->text, '.'), *last = dot ? dot + 1 : h->text;

    if (is_number(last, strlen(last)))
        return err_set(err, -EINVAL, "the host is a number that programs read differently (write an address as 192.0.2.1)");
    if (dot && strchr(last, '_'))
        return err_set(err, -EINVAL, "the last part of the host name has an underscore");
    return 0;
}

static int parse_name(const char *data, size_t len, struct host *ret, struct err *err) {
    struct host h = {.kind = HOST_NAME};
    size_t start = 0;
    int r;

    if (data[len - 1] == '.')
        len--;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && data[i] != '.')
            continue;
        r = add_label(data + start, i - start, &h, err);
        if (r < 0)
            return r;
        start = i + 1;
    }
    r = check_last_label(&h, err);
    if (r < 0)
        return r;
    *ret = h;
    return 0;
}

bool host_is_metadata(const struct host *h) {
    static const char *const names[] = {
        "metadata.platformequinix.com",    /* Equinix Metal (deploy.equinix.com, metadata) */
        "metadata.packet.net",             /* the same, before */
        "global.cloudinit.sdns.ksyun.com", /* Kingsoft (endocs.ksyun.com/documents/7200) */
        "metadata.google.internal",        /* Google; these lead to link-local addresses, if they lead anywhere */
        "metadata.goog",                   /* the same */
        "metadata.tencentyun.com",         /* Tencent */
        "metadata.azure.internal",         /* Azure */
        "instance-data.ec2.internal",      /* AWS */
    };

    return h->kind == HOST_NAME && str_index(h->text, names, ARRAY_LEN(names)) >= 0;
}

void host_from_addr(const struct addr *a, struct host *ret) {
    *ret = (struct host){.kind = a->len == 4 ? HOST_IPV4 : HOST_IPV6, .addr = *a};
    addr_format(a, ret->text);
    ret->len = strlen(ret->text);
}

int host_parse(const char *data, size_t len, struct host *ret, struct err *err) {
    bool brackets = len >= 2 && data[0] == '[' && data[len - 1] == ']';
    struct addr a;
    int r;

    r = check_bytes(data, len, err);
    if (r < 0)
        return r;
    r = brackets ? addr_parse(data + 1, len - 2, &a) : addr_parse(data, len, &a);
    if (r == 0 && (!brackets || a.len == 16)) {
        host_from_addr(&a, ret);
        return 0;
    }
    if (brackets || memchr(data, ':', len))
        return err_set(err, -EINVAL, "the host has brackets or colons but is no IPv6 address");
    return parse_name(data, len, ret, err);
}

static int parse_port(const char *p, size_t len, uint16_t *ret, struct err *err) {
    unsigned v = 0;

    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9' || i == 5)
            return err_set(err, -EINVAL, "the port must be a number from 1 to 65535");
        v = v * 10 + (unsigned)(p[i] - '0');
    }
    if (v == 0 || v > 65535 || p[0] == '0')
        return err_set(err, -EINVAL, "the port must be a number from 1 to 65535");
    *ret = (uint16_t)v;
    return 0;
}

int host_parse_with_port(const char *data, size_t len, struct host *ret, uint16_t *ret_port, struct err *err) {
    const char *colon = len ? memrchr(data, ':', len) : NULL;
    struct host h;
    uint16_t port = 0;
    int r;

    if (colon && (data[0] == '[' ? colon[-1] != ']' : memchr(data, ':', len) != colon))
        colon = NULL; /* it belongs to the address */
    if (colon) {
        r = parse_port(colon + 1, len - (size_t)(colon + 1 - data), &port, err);
        if (r < 0)
            return r;
        len = (size_t)(colon - data);
    }
    r = host_parse(data, len, &h, err);
    if (r < 0)
        return r;
    *ret = h;
    *ret_port = port;
    return 0;
}

bool host_eq(const struct host *a, const struct host *b) {
    return a->kind == b->kind && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}
