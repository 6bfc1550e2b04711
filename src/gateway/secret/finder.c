/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/secret.h"
#include "base/vec.h"

enum { FINDER_PAIRS = 8192, FINDER_ENDS = 1024 };

struct finder_pattern {
    size_t at; /* in bytes */
    uint32_t len, tag, start;
    uint16_t next_end, next_first; /* the next one of the same list, + 1; 0: none */
};
static_assert(FINDER_PATTERNS_MAX < UINT16_MAX, "lists are of 16 bits");
static_assert(FINDER_MIN >= sizeof(uint32_t), "patterns are compared by their first four bytes");

struct finder {
    char *bytes; /* of all patterns */
    size_t used, cap;
    struct finder_pattern *v;
    size_t n;
    size_t window, longest;         /* window 0: not built */
    uint8_t shift[FINDER_PAIRS];    /* by two bytes at the end of the window: how far it can be moved; 0: look */
    uint16_t ends[FINDER_ENDS];     /* patterns by the last two bytes of the window */
    uint16_t firsts[UINT8_MAX + 1]; /* by their first byte */
};

/* Two bytes, as the place of their entry in the table of shifts. */
static inline unsigned pair(const uint8_t *p) {
    return (unsigned)p[0] << 5 ^ p[1];
}

int finder_new(struct finder **ret) {
    struct finder *f = calloc(1, sizeof *f);

    if (!f)
        return -ENOMEM;
    *ret = f;
    return 0;
}

void finder_free(struct finder *f) {
    if (!f)
        return;
    if (f->bytes)
        explicit_bzero(f->bytes, f->cap);
    if (f->v)
        explicit_bzero(f->v, f->n * sizeof *f->v);
    free(f->bytes);
    free(f->v);
    explicit_bzero(f, sizeof *f);
    free(f);
}

int finder_add(struct finder *f, const char *p, size_t len, uint32_t tag) {
    if (f->window)
        BUG("a pattern after finder_build()");
    if (len < FINDER_MIN)
        return 0;
    if (len > FINDER_MAX || f->n >= FINDER_PATTERNS_MAX)
        return -E2BIG;
    if (secret_grow(&f->bytes, f->used, &f->cap, f->used + len) < 0 ||
        VEC_ADD(f->v, f->n, (struct finder_pattern){.at = f->used, .len = (uint32_t)len, .tag = tag}) < 0)
        return -ENOMEM;
    memcpy(f->bytes + f->used, p, len);
    f->used += len;
    return 0;
}

static const uint8_t *bytes_of(const struct finder *f, const struct finder_pattern *p) {
    return (const uint8_t *)f->bytes + p->at;
}

static void index_pattern(struct finder *f, size_t i) {
    struct finder_pattern *p = &f->v[i];
    const uint8_t *bytes = bytes_of(f, p);
    uint16_t *end = &f->ends[pair(bytes + f->window - 2) % FINDER_ENDS];

    memcpy(&p->start, bytes, sizeof p->start);
    for (size_t k = 0; k + 2 <= f->window; k++) {
        uint8_t *shift = &f->shift[pair(bytes + k)];

        *shift = (uint8_t)MIN_OF((size_t)*shift, f->window - 2 - k);
    }
    p->next_end = *end;
    *end = (uint16_t)(i + 1);
    p->next_first = f->firsts[bytes[0]];
    f->firsts[bytes[0]] = (uint16_t)(i + 1);
}

int finder_build(struct finder *f) {
    f->window = FINDER_WINDOW;
    for (size_t i = 0; i < f->n; i++) {
        f->window = MIN_OF(f->window, (size_t)f->v[i].len);
        f->longest = MAX_OF(f->longest, (size_t)f->v[i].len);
    }
    memset(f->shift, (int)f->window - 1, sizeof f->shift);
    for (size_t i = 0; i < f->n; i++)
        index_pattern(f, i);
    return 0;
}

/* The longest pattern that stands at p; 0: none does. */
static size_t match_at(const struct finder *f, const uint8_t *p, size_t left, uint32_t *ret_tag) {
    size_t longest = 0;
    uint32_t start;

    memcpy(&start, p, sizeof start);
    for (size_t i = f->ends[pair(p + f->window - 2) % FINDER_ENDS]; i; i = f->v[i - 1].next_end) {
        const struct finder_pattern *v = &f->v[i - 1];

        if (v->start != start || v->len > left || v->len <= longest || memcmp(p, bytes_of(f, v), v->len) != 0)
            continue;
        longest = v->len;
        *ret_tag = v->tag;
    }
    return longest;
}

/* The first match that begins at from or later. */
static bool find_from(const struct finder *f, const uint8_t *data, size_t len, size_t from, struct finder_match *ret) {
    size_t last = f->window - 2; /* the pair that is looked at, within the window */
    uint32_t tag = 0;

    if (f->n == 0 || len < f->window)
        return false;
    for (size_t at = from + last; at + 2 <= len;) {
        size_t shift = f->shift[pair(data + at)], n;

        if (shift) {
            at += shift;
            continue;
        }
        n = match_at(f, data + at - last, len - (at - last), &tag);
        if (n) {
            *ret = (struct finder_match){.at = at - last, .len = n, .tag = tag};
            return true;
        }
        at++;
    }
    return false;
}

bool finder_find(const struct finder *f, const void *data, size_t len, struct finder_match *ret) {
    return find_from(f, data, len, 0, ret);
}

void finder_stream_done(struct finder_stream *s) {
    if (s->kept)
        explicit_bzero(s->kept, s->cap);
    free(s->kept);
    *s = (struct finder_stream){0};
}

static bool may_begin(const struct finder *f, const uint8_t *p, size_t len) {
    for (size_t i = f->firsts[p[0]]; i; i = f->v[i - 1].next_first)
        if (f->v[i - 1].len > len && memcmp(p, bytes_of(f, &f->v[i - 1]), len) == 0)
            return true;
    return false;
}

/* How many of the last bytes may be the beginning of a pattern that goes on in the next piece. */
static size_t unsure(const struct finder *f, const uint8_t *data, size_t len) {
    size_t n = f->longest ? MIN_OF(len, f->longest - 1) : 0;

    while (n && !may_begin(f, data + len - n, n))
        n--;
    return n;
}

static int keep(struct finder_stream *s, const void *data, size_t len) {
    if (secret_grow(&s->kept, s->len, &s->cap, s->len + len) < 0)
        return -ENOMEM;
    if (len)
        memcpy(s->kept + s->len, data, len);
    s->len += len;
    return 0;
}

/* Only the last n bytes are wanted any more. */
static void forget_all_but(struct finder_stream *s, size_t n) {
    size_t gone = s->len - n;

    if (gone == 0)
        return;
    memmove(s->kept, s->kept + gone, n);
    explicit_bzero(s->kept + n, gone);
    s->len = n;
}

static bool find_ending_after(const struct finder *f, const uint8_t *data, size_t len, size_t after, uint32_t *ret_tag) {
    struct finder_match m = {0};

    for (size_t from = 0; find_from(f, data, len, from, &m); from = m.at + 1)
        if (m.at + m.len > after) {
            *ret_tag = m.tag;
            return true;
        }
    return false;
}

int finder_watch(const struct finder *f, struct finder_stream *s, const void *data, size_t len, uint32_t *ret_tag) {
    size_t old = s->len, joined = old ? MIN_OF(len, f->longest) : 0;
    bool found;

    if (f->n == 0)
        return 0;
    if (keep(s, data, joined) < 0)
        return -ENOMEM;
    found = old && find_ending_after(f, (const uint8_t *)s->kept, s->len, old, ret_tag);
    if (!found && (!old || joined < len))
        found = find_ending_after(f, data, len, 0, ret_tag);
    if (old && joined == len) {
        forget_all_but(s, unsure(f, (const uint8_t *)s->kept, s->len));
        return found;
    }
    forget_all_but(s, 0);
    old = unsure(f, data, len);
    return old && keep(s, (const uint8_t *)data + len - old, old) < 0 ? -ENOMEM : found;
}

/* Forms ------------------------------------------------------------------------------------------------------------- */

/* The forms in which a string may travel. Written with plain pointers: this is done for each request that gets a credential. */
enum { GROWS_MAX = 6 }; /* \u00xx, &quot;: no form is longer than so many bytes for each */

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64_url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
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
        return put_base64(to, base64_digits, style, p, len);
    case BASE64_URL:
        return put_base64(to, base64_url_digits, style, p, len);
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
