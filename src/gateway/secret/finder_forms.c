/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which a string may travel. Written with plain pointers: this is done for each request that gets a credential. */
#include <errno.h>

#include "gateway/secret/finder_priv.h"

enum { GROWS_MAX = 6 }; /* \u00xx, &quot;: no form is longer than so many bytes for each */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char low[] = "0123456789abcdef", high[] = "0123456789ABCDEF";

static const uint8_t letters_and_digits[256] = {['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1};

static char *put_byte(char *to, const char *digits, uint8_t c) {
    *to++ = digits[c >> 4];
    *to++ = digits[c & 15];
    return to;
}

/* With before bytes of something else in front: the digits that hold bits of p only. */
static char *put_base64(char *to, const char *alphabet, size_t before, const uint8_t *p, size_t len) {
    size_t bits = (before + len) * 8;

    for (size_t bit = (before * 8 + 5) / 6 * 6; bit + 6 <= bits; bit += 6) {
        size_t at = bit / 8 - before;
        unsigned two = (unsigned)p[at] << 8 | (at + 1 < len ? p[at + 1] : 0);

        *to++ = alphabet[two >> (10 - bit % 8) & 63];
    }
    return to;
}

static char *put_hex(char *to, bool percent, const char *digits, const uint8_t *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (percent)
            *to++ = '%';
        to = put_byte(to, digits, p[i]);
    }
    return to;
}

/* As curl, Python and Go do it (RFC 3986); as browsers do; as forms are sent; with what may stand in a path left alone. */
static const struct {
    const char *plain, *digits;
    bool plus;
} url_styles[] = {
    {"-._~", high, false}, {"-._~", low, false}, {"-._~!'()*", high, false}, {"-._*", high, true},
    {"-._", high, true},   {"-._~", high, true}, {"-._~/", high, false},     {"-._~/:@!$&'()*+,;=", high, false},
};

static char *put_url(char *to, size_t style, const uint8_t *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (letters_and_digits[p[i]] || (p[i] && strchr(url_styles[style].plain, p[i]))) {
            *to++ = (char)p[i];
        } else if (p[i] == ' ' && url_styles[style].plus) {
            *to++ = '+';
        } else {
            *to++ = '%';
            to = put_byte(to, url_styles[style].digits, p[i]);
        }
    }
    return to;
}

/* As most do it; with "\/" (PHP); with everything that means something in HTML as \u00xx (Go, Rails). */
static const char *const json_styles[] = {"", "/", "<>&", "<>&'"};

static char *put_json(char *to, size_t style, const uint8_t *p, size_t len) {
    static const char names[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};

    for (size_t i = 0; i < len; i++) {
        bool special = p[i] && strchr(json_styles[style], p[i]), named = p[i] < sizeof names && names[p[i]];

        if (p[i] == '"' || p[i] == '\\' || named || (special && p[i] == '/')) {
            *to++ = '\\';
            *to++ = named ? names[p[i]] : (char)p[i];
        } else if (p[i] < 0x20 || p[i] == 0x7f || special) {
            memcpy(to, "\\u00", 4);
            to = put_byte(to + 4, low, p[i]);
        } else {
            *to++ = (char)p[i];
        }
    }
    return to;
}

/* As Python, PHP, Go (where templates write '+' so, too), JavaScript and XML do it. */
static const struct {
    const char *quote, *apostrophe, *plus;
} html_styles[] = {
    {"&quot;", "&#x27;", "+"},   {"&quot;", "&#039;", "+"}, {"&#34;", "&#39;", "+"},
    {"&#34;", "&#39;", "&#43;"}, {"&quot;", "&#39;", "+"},  {"&quot;", "&apos;", "+"},
};

static const char *html_name(size_t style, uint8_t c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return html_styles[style].quote;
    case '\'':
        return html_styles[style].apostrophe;
    case '+':
        return html_styles[style].plus;
    }
    return NULL;
}

static char *put_html(char *to, size_t style, const uint8_t *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const char *name = html_name(style, p[i]);

        if (name)
            to = stpcpy(to, name);
        else
            *to++ = (char)p[i];
    }
    return to;
}

static char *put_reversed(char *to, const uint8_t *p, size_t len) {
    while (len)
        *to++ = (char)p[--len];
    return to;
}

enum { ALIGNMENTS = 3 };
enum form_kind { RAW, BASE64, BASE64_URL, HEX, PERCENT, REVERSED, URL, JSON, HTML, KINDS };

static const size_t styles[KINDS] = {
    [RAW] = 1,
    [BASE64] = ALIGNMENTS,
    [BASE64_URL] = ALIGNMENTS,
    [HEX] = 2,
    [PERCENT] = 2,
    [REVERSED] = 1,
    [URL] = ARRAY_LEN(url_styles),
    [JSON] = ARRAY_LEN(json_styles),
    [HTML] = ARRAY_LEN(html_styles),
};

static char *put_form(char *to, enum form_kind kind, size_t style, const uint8_t *p, size_t len) {
    switch (kind) {
    case RAW:
        memcpy(to, p, len);
        return to + len;
    case BASE64:
        return put_base64(to, base64, style, p, len);
    case BASE64_URL:
        return put_base64(to, base64_url, style, p, len);
    case HEX:
        return put_hex(to, false, style ? high : low, p, len);
    case PERCENT:
        return put_hex(to, true, style ? high : low, p, len);
    case REVERSED:
        return put_reversed(to, p, len);
    case URL:
        return put_url(to, style, p, len);
    case JSON:
        return put_json(to, style, p, len);
    case HTML:
        return put_html(to, style, p, len);
    case KINDS:
        break;
    }
    BUG("a form that is none");
}

static bool is_known(const struct finder *f, size_t first, const char *form, size_t len) {
    for (size_t i = first; i < f->n; i++)
        if (f->v[i].len == len && memcmp(f->bytes + f->v[i].at, form, len) == 0)
            return true;
    return false;
}

/* Most tokens: URL, JSON and HTML leave them as they are. */
static bool is_plain(const uint8_t *p, size_t len) {
    size_t i = 0;

    while (i < len && (letters_and_digits[p[i]] || p[i] == '-' || p[i] == '_' || p[i] == '.'))
        i++;
    return i == len;
}

static int add_all(struct finder *f, const uint8_t *p, size_t len, uint32_t tag, char *room) {
    enum form_kind end = is_plain(p, len) ? URL : KINDS;
    size_t first = f->n;
    int r = 0;

    for (enum form_kind kind = 0; kind < end; kind++)
        for (size_t style = 0; style < styles[kind] && r == 0; style++) {
            size_t n = (size_t)(put_form(room, kind, style, p, len) - room);

            if (!is_known(f, first, room, n))
                r = finder_add(f, room, n, tag);
        }
    return r;
}

int finder_add_forms(struct finder *f, const char *p, size_t len, uint32_t tag) {
    char *room;
    int r;

    if (len > FINDER_MAX)
        return -E2BIG;
    room = malloc(len * GROWS_MAX + 1);
    if (!room)
        return -ENOMEM;
    r = add_all(f, (const uint8_t *)p, len, tag, room);
    explicit_bzero(room, len * GROWS_MAX + 1);
    free(room);
    return r;
}
