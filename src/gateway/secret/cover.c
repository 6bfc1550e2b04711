/* SPDX-License-Identifier: Apache-2.0 */
/* The values to redact, and the texts they may appear as. */
#include "gateway/secret/cover.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "base/vec.h"
#include "gateway/secret/cover_priv.h"

enum { BASE64_BITS = 6, BASE32_BITS = 5, PREFIX_MAX = 16, SLACK = 64, TEXTS_FIRST = 32 };

int cover_new(struct cover **ret) {
    struct cover *c = calloc(1, sizeof *c);

    if (!c)
        return -ENOMEM;
    *ret = c;
    return 0;
}

void cover_free(struct cover *c) {
    if (!c)
        return;
    if (c->bytes)
        explicit_bzero(c->bytes, c->cap);
    free(c->bytes);
    free(c->texts);
    explicit_bzero(c, sizeof *c);
    free(c);
}

size_t cover_tail(const struct cover *c) {
    return c->longest ? c->longest - 1 : 0;
}

uint64_t cover_steps(const struct cover *c) {
    return c->steps;
}

/* `bits` bits of the value from `bit` on, as many as there are. */
static unsigned bits_at(const uint8_t *v, size_t size, size_t bit, unsigned bits) {
    size_t at = bit / 8;
    unsigned two = (unsigned)v[at] << 8 | (at + 1 < size ? v[at + 1] : 0);

    return two >> (16 - bits - bit % 8) & ((1u << bits) - 1);
}

uint8_t cover_char(const struct cover *c, const struct cover_text *t, size_t i) {
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567", hex[] = "0123456789abcdef";
    const uint8_t *v = (const uint8_t *)c->bytes + t->at;

    switch ((enum cover_kind)t->kind) {
    case COVER_RAW:
        return v[i];
    case COVER_REVERSED:
        return v[t->len - 1 - i];
    case COVER_HEX:
        return (uint8_t)hex[i % 2 ? v[i / 2] & 15 : v[i / 2] >> 4];
    case COVER_BASE32:
        return (uint8_t)base32[bits_at(v, t->size, t->bit + i * BASE32_BITS, BASE32_BITS)];
    case COVER_BASE64:
        return (uint8_t)base64[bits_at(v, t->size, t->bit + i * BASE64_BITS, BASE64_BITS)];
    case COVER_KINDS:
        break;
    }
    BUG("a text of no kind");
}

bool cover_char_is(uint8_t kind, uint8_t want, uint8_t c) {
    if (c == want)
        return true;
    switch ((enum cover_kind)kind) {
    case COVER_RAW:
    case COVER_REVERSED:
        return want == ' ' && c == '+';
    case COVER_HEX:
    case COVER_BASE32:
        return isupper(c) && (c | 0x20) == want;
    case COVER_BASE64:
        return (want == '+' && c == '-') || (want == '/' && c == '_');
    case COVER_KINDS:
        break;
    }
    return false;
}

#define SAME(c) [c] = c
#define LETTER(c) [c] = c, [(c) & ~0x20] = c
const uint8_t cover_folds[UINT8_MAX + 1] = {
    LETTER('a'), LETTER('b'), LETTER('c'), LETTER('d'), LETTER('e'), LETTER('f'), LETTER('g'), LETTER('h'), LETTER('i'),
    LETTER('j'), LETTER('k'), LETTER('l'), LETTER('m'), LETTER('n'), LETTER('o'), LETTER('p'), LETTER('q'), LETTER('r'),
    LETTER('s'), LETTER('t'), LETTER('u'), LETTER('v'), LETTER('w'), LETTER('x'), LETTER('y'), LETTER('z'), SAME('0'),
    SAME('1'),   SAME('2'),   SAME('3'),   SAME('4'),   SAME('5'),   SAME('6'),   SAME('7'),   SAME('8'),   SAME('9'),
    SAME('!'),   SAME('"'),   SAME('#'),   SAME('$'),   SAME('\''),  SAME('('),   SAME(')'),   SAME('*'),   SAME(','),
    SAME('.'),   ['/'] = '/', ['_'] = '/', SAME(';'),   SAME('<'),   SAME('>'),   SAME('?'),   SAME('@'),   SAME('['),
    SAME(']'),   SAME('^'),   SAME('`'),   SAME('{'),   SAME('|'),   SAME('}'),   SAME('~'),   SAME(':'),   [' '] = '+',
    ['-'] = '+', ['+'] = '+',
};

static int add_form(struct cover *c, enum cover_kind kind, size_t at, size_t size, size_t len, size_t bit) {
    if (len < COVER_VALUE_MIN)
        return 0;
    if (c->n >= COVER_TEXTS_MAX)
        return -E2BIG;
    if (VEC_RESERVE(c->texts, c->n, c->n_cap, TEXTS_FIRST) < 0)
        return -ENOMEM;
    c->texts[c->n++] =
        (struct cover_text){.at = at, .len = (uint32_t)len, .kind = (uint8_t)kind, .bit = (uint8_t)bit, .size = (uint32_t)size};
    return 0;
}

/* The value may be anywhere in what was encoded: so many ways to begin, without the characters that hold bits of its neighbours. */
static int add_bases(struct cover *c, size_t at, size_t len) {
    static const uint8_t bits64[] = {0, 4, 2}, bits32[] = {0, 2, 4, 1, 3};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(bits64); i++)
        r = add_form(c, COVER_BASE64, at, len, (len * 8 - bits64[i]) / BASE64_BITS, bits64[i]);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(bits32); i++)
        r = add_form(c, COVER_BASE32, at, len, (len * 8 - bits32[i]) / BASE32_BITS, bits32[i]);
    return r;
}

/* What no usual encoder changes. */
static bool is_plain_byte(uint8_t c) {
    return isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* "sk-ant-api03-": it is public, so the letters behind it have to be enough by themselves. */
static size_t public_part(const char *p, size_t len) {
    size_t n = 0;

    for (size_t i = 0; i < MIN_OF(len, (size_t)PREFIX_MAX); i++)
        if (p[i] == '-' || p[i] == '_')
            n = i + 1;
    return n;
}

static int add_segments(struct cover *c, size_t at, size_t len) {
    const char *p = c->bytes + at;
    int r = 0;

    for (size_t from = 0, to; r == 0 && from < len; from = to + 1) {
        for (to = from; to < len && is_plain_byte((uint8_t)p[to]);)
            to++;
        if (to - from < len && to - from >= COVER_SEGMENT_MIN + (from ? 0 : public_part(p, to)))
            r = add_form(c, COVER_RAW, at + from, to - from, to - from, 0);
    }
    return r;
}

static size_t longest_of(size_t len) {
    size_t n = SLACK * 2;

    while (n < len * COVER_GROWS + SLACK && n < COVER_LONGEST_MAX)
        n *= 2;
    return n;
}

static bool is_known(const struct cover *c, const char *value, size_t len) {
    for (size_t i = 0; i < c->n; i++)
        if (c->texts[i].kind == COVER_RAW && c->texts[i].len == len && memcmp(c->bytes + c->texts[i].at, value, len) == 0)
            return true;
    return false;
}

int cover_add(struct cover *c, const char *value, size_t len) {
    size_t at = c->used;
    int r;

    if (len > COVER_VALUE_MAX)
        return -E2BIG;
    if (len < COVER_VALUE_MIN || is_known(c, value, len))
        return 0;
    if (secret_grow(&c->bytes, c->used, &c->cap, c->used + len) < 0)
        return -ENOMEM;
    memcpy(c->bytes + at, value, len);
    c->used += len;
    c->longest = MAX_OF(c->longest, longest_of(len));
    r = add_form(c, COVER_RAW, at, len, len, 0);
    r = r < 0 ? r : add_form(c, COVER_REVERSED, at, len, len, 0);
    r = r < 0 ? r : add_form(c, COVER_HEX, at, len, len * 2, 0);
    r = r < 0 ? r : add_bases(c, at, len);
    return r < 0 ? r : add_segments(c, at, len);
}

void cover_build(struct cover *c) {
    struct cover_places places = {0};

    if (c->built) {
        memset(c->firsts, 0, sizeof c->firsts);
        memset(c->pairs, 0, sizeof c->pairs);
    }
    c->built = true;
    for (size_t i = 0; i < c->n; i++) {
        struct cover_text *t = &c->texts[i];
        uint16_t *first = &c->firsts[cover_fold(cover_char(c, t, 0))];

        for (size_t k = 0; k < COVER_HEAD; k++)
            t->head[k] = cover_fold(cover_char(c, t, k));
        t->next = *first;
        *first = (uint16_t)(i + 1);
        cover_add_pairs(c, t, &places);
    }
    cover_end_pairs(c, &places);
    explicit_bzero(&places, sizeof places); /* letters of the values */
}

/* Writes over what is covered only where no search looks any more. */
bool cover_text(struct cover *c, char *text, size_t len) {
    size_t at = 0, n = 0, covered = 0, done = 0;
    bool any = false;

    for (size_t from = 0; cover_find(c, (const uint8_t *)text, len, from, len, &at, &n); from = at + 1) {
        if (done < MIN_OF(at, covered))
            memset(text + done, '*', MIN_OF(at, covered) - done);
        done = at;
        covered = MAX_OF(covered, at + n);
        any = true;
    }
    if (done < covered)
        memset(text + done, '*', covered - done);
    return any;
}

void cover_stream_done(struct cover_stream *s) {
    if (s->held)
        explicit_bzero(s->held, s->cap);
    free(s->held);
    *s = (struct cover_stream){0};
}
