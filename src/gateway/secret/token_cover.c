/* SPDX-License-Identifier: Apache-2.0 */
/* Redacts tokens in answers of login hosts. */
#include "gateway/secret/token_cover.h"

#include <ctype.h>
#include <strings.h>

#include "base/str.h"

enum { WORD_HALF = 32 };
static_assert(sizeof((struct token_cover *)0)->word == 2 * WORD_HALF, "two halves");

/* As they end, without '_' and '-'. RFC 6749, OpenID Connect, RFC 8628, CIBA (auth_req_id); keys that some services make from a login. */
static const char *const token_names[] = {
    "accesstoken",  "refreshtoken", "idtoken", "devicecode",      "authreqid",    "sessiontoken",
    "subjecttoken", "oauthtoken",   "rawkey",  "secretaccesskey", "clientsecret",
};

static bool word_is(const struct token_cover *c, const char *text) {
    return c->n_word == strlen(text) && memcmp(c->word, text, c->n_word) == 0;
}

static bool is_name(const struct token_cover *c) {
    size_t len = c->n_word - (c->n_word && c->word[c->n_word - 1] == 's'); /* a list of them */

    for (size_t i = 0; i < ARRAY_LEN(token_names); i++) {
        size_t n = strlen(token_names[i]);

        if (len >= n && memcmp(c->word + len - n, token_names[i], n) == 0)
            return true;
    }
    return (c->mode == TOKEN_COVER_ANY && word_is(c, "token")) || (c->codes && word_is(c, "code"));
}

/* What a byte is in a name: itself in small letters, JOINS (it is left out), or 0: it ends it. */
enum { JOINS = 1 };
static const uint8_t word_bytes[256] = {
    [0] = JOINS, /* UTF-16 */
    ['_'] = JOINS, ['-'] = JOINS, ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4', ['5'] = '5',
    ['6'] = '6',   ['7'] = '7',   ['8'] = '8', ['9'] = '9', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd',
    ['e'] = 'e',   ['f'] = 'f',   ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k', ['l'] = 'l',
    ['m'] = 'm',   ['n'] = 'n',   ['o'] = 'o', ['p'] = 'p', ['q'] = 'q', ['r'] = 'r', ['s'] = 's', ['t'] = 't',
    ['u'] = 'u',   ['v'] = 'v',   ['w'] = 'w', ['x'] = 'x', ['y'] = 'y', ['z'] = 'z', ['A'] = 'a', ['B'] = 'b',
    ['C'] = 'c',   ['D'] = 'd',   ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i', ['J'] = 'j',
    ['K'] = 'k',   ['L'] = 'l',   ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p', ['Q'] = 'q', ['R'] = 'r',
    ['S'] = 's',   ['T'] = 't',   ['U'] = 'u', ['V'] = 'v', ['W'] = 'w', ['X'] = 'x', ['Y'] = 'y', ['Z'] = 'z',
};

static inline void word_add(struct token_cover *c, uint8_t b) {
    if (c->n_word == sizeof c->word) { /* of a long one the end is enough */
        memcpy(c->word, c->word + WORD_HALF, WORD_HALF);
        c->n_word = WORD_HALF;
    }
    c->word[c->n_word++] = (char)b;
}

/* A value -------------------------------------------------------------------------------------------------------- */

static void value_end(struct token_cover *c, struct buf *out) {
    buf_add(out, c->held, c->n_held);
    explicit_bzero(c->held, sizeof c->held);
    c->n_held = 0;
}

static void value_byte(struct token_cover *c, uint8_t b, struct buf *out) {
    if (c->covering) {
        buf_addc(out, '*');
        return;
    }
    c->held[c->n_held++] = b;
    if (c->n_held < TOKEN_COVER_MIN)
        return;
    for (size_t i = 0; i < c->n_held; i++)
        buf_addc(out, '*');
    explicit_bzero(c->held, sizeof c->held);
    c->n_held = 0;
    c->covering = c->any = true;
}

static void name_begin(struct token_cover *c) {
    c->in_value = c->assigned = c->covering = false;
    c->n_word = 0;
    c->expect = 0;
}

/* What assigns, what may come between, and what ends it. Punctuation that is encoded ("%3D", "&quot;", "\u003d") is short, or part of
 * the value: then more is covered. */
static void any_byte(struct token_cover *c, uint8_t b, struct buf *out) {
    bool in_value = c->covering || c->n_held;

    if ((!b || (b > ' ' && b < 0x7f && !strchr("\"'<>&,;(){}[]\\`", b))) &&
        (in_value || (b && c->assigned && !strchr(":=%", b)))) {
        value_byte(c, b, out);
        return;
    }
    value_end(c, out);
    buf_addc(out, (char)b);
    c->assigned |= b && strchr(":=>%\\", b);
    c->gap += !isspace(b);
    if (c->covering || c->gap > TOKEN_COVER_GAP || strchr(",]})", b))
        name_begin(c);
}

/* '"', ':', '"', and then everything until the next '"'. */
static void member_byte(struct token_cover *c, uint8_t b, struct buf *out) {
    static const char wanted[] = "\":\"";

    if (c->expect == strlen(wanted) && b != '"') {
        value_byte(c, b, out);
        return;
    }
    value_end(c, out);
    buf_addc(out, (char)b);
    if (c->expect < strlen(wanted) && b == (uint8_t)wanted[c->expect])
        c->expect++;
    else if (!isspace(b) || c->expect == 0)
        name_begin(c);
}

/* Names ---------------------------------------------------------------------------------------------------------- */

/* b is behind a word. True: that was a name. */
static bool word_end(struct token_cover *c, uint8_t b) {
    bool found = c->n_word >= strlen("code") && is_name(c) && (c->mode == TOKEN_COVER_ANY || (c->quoted && b == '"'));

    c->n_word = 0;
    c->quoted = b == '"';
    if (!found)
        return false;
    c->in_value = true;
    c->gap = 0;
    c->expect = 0;
    return true;
}

/* How many bytes go on as they are. */
static size_t skip_names(struct token_cover *c, const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        uint8_t b = word_bytes[data[i]];

        if (b > JOINS)
            word_add(c, b);
        else if (b != JOINS && word_end(c, data[i]))
            return i;
    }
    return len;
}

void token_cover_feed(struct token_cover *c, const uint8_t *data, size_t len, bool end, struct buf *out) {
    for (size_t i = 0; i < len; i++) {
        if (!c->in_value) {
            size_t n = skip_names(c, data + i, len - i);

            buf_add(out, data + i, n);
            i += n;
            if (i == len)
                break;
        }
        if (!data[i] && !c->covering && !c->n_held) /* UTF-16 */
            buf_addc(out, 0);
        else if (c->mode == TOKEN_COVER_ANY)
            any_byte(c, data[i], out);
        else
            member_byte(c, data[i], out);
    }
    if (end)
        value_end(c, out);
}

bool token_cover_field(const char *name, size_t name_len, char *value, size_t len) {
    static const char *const redirects[] = {"location", "content-location", "refresh", "link"};
    CLEANUP(buf_done) struct buf out = BUF_INIT(name_len + len + 1);
    struct token_cover c = {.mode = TOKEN_COVER_ANY};

    for (size_t i = 0; i < ARRAY_LEN(redirects); i++)
        c.codes |= name_len == strlen(redirects[i]) && strncasecmp(name, redirects[i], name_len) == 0;
    token_cover_feed(&c, (const uint8_t *)name, name_len, false, &out);
    token_cover_feed(&c, (const uint8_t *)":", 1, false, &out);
    token_cover_feed(&c, (const uint8_t *)value, len, true, &out);
    if (buf_ok(&out) && out.len == name_len + 1 + len)
        memcpy(value, out.data + name_len + 1, len);
    else
        memset(value, '*', len); /* no memory: nothing goes on that was not looked at */
    return c.any || !buf_ok(&out);
}
