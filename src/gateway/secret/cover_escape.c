/* SPDX-License-Identifier: Apache-2.0 */
/* One character as encoders write it. Readers here are generous: what no encoder writes may be taken for an escape, too. */
#include <ctype.h>
#include <string.h>

#include "gateway/secret/cover_priv.h"

enum { NESTED_MAX = 4, INDENT_MAX = 16, NUMBER_MAX = 8 };

static int digit_of(uint8_t c, int base) {
    int n = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : base;

    return n < base ? n : -1;
}

/* min to max digits that are a byte's number; *at moves behind them. -1: there are fewer, or it is larger. */
static int number(const uint8_t *p, size_t len, size_t *at, int base, size_t min, size_t max) {
    size_t n = 0;
    int value = 0;

    while (n < max && *at + n < len && digit_of(p[*at + n], base) >= 0) {
        value = value * base + digit_of(p[*at + n], base);
        if (value > UINT8_MAX)
            return -1;
        n++;
    }
    *at += n;
    return n >= min ? value : -1;
}

/* "{2f}" */
static int in_braces(const uint8_t *p, size_t len, size_t *at) {
    int c;

    ++*at;
    c = number(p, len, at, 16, 1, NUMBER_MAX);
    return *at < len && p[(*at)++] == '}' ? c : -1;
}

/* %2F, %252F, %u002F */
static int percent(const uint8_t *p, size_t len, size_t *at) {
    for (size_t n = 0; n < NESTED_MAX && len - *at >= 4 && memcmp(p + *at, "25", 2) == 0 && digit_of(p[*at + 2], 16) >= 0 &&
                       digit_of(p[*at + 3], 16) >= 0;
         n++)
        *at += 2;
    if (*at < len && p[*at] == 'u') {
        ++*at;
        return number(p, len, at, 16, 4, 4);
    }
    return number(p, len, at, 16, 2, 2);
}

/* The letter behind a backslash. */
static int backslash_letter(const uint8_t *p, size_t len, size_t *at) {
    static const char letters[] = "nrtbf", meant[] = "\n\r\t\b\f";
    const char *known;

    switch (p[*at]) {
    case 'u':
    case 'x':
        if (len - *at > 1 && p[*at + 1] == '{') {
            ++*at;
            return in_braces(p, len, at);
        }
        ++*at;
        return p[*at - 1] == 'u' ? number(p, len, at, 16, 4, 4) : number(p, len, at, 16, 2, 2);
    case 'U':
        ++*at;
        return number(p, len, at, 16, 8, 8);
    }
    known = memchr(letters, p[*at], sizeof letters - 1);
    if (!known)
        return -1;
    ++*at;
    return meant[known - letters];
}

/* \/ \x2F \u002F \u{2f} \057, behind as many backslashes as it was encoded times. */
static int backslash(const uint8_t *p, size_t len, size_t *at) {
    for (size_t n = 0; n < NESTED_MAX && len - *at > 1 && p[*at] == '\\'; n++)
        ++*at;
    if (*at >= len)
        return -1;
    if (isdigit(p[*at]))
        return number(p, len, at, 8, 3, 3);
    if (isalpha(p[*at]))
        return backslash_letter(p, len, at);
    return p[(*at)++];
}

static const struct {
    const char *name;
    char c;
} entities[] = {
    {"Hat;", '^'},   {"NewLine;", '\n'}, {"Tab;", '\t'},   {"amp;", '&'},    {"apos;", '\''},  {"ast;", '*'},  {"bsol;", '\\'},
    {"colon;", ':'}, {"comma;", ','},    {"commat;", '@'}, {"dollar;", '$'}, {"equals;", '='}, {"excl;", '!'}, {"grave;", '`'},
    {"gt;", '>'},    {"lbrace;", '{'},   {"lbrack;", '['}, {"lcub;", '{'},   {"lowbar;", '_'}, {"lpar;", '('}, {"lsqb;", '['},
    {"lt;", '<'},    {"midast;", '*'},   {"num;", '#'},    {"percnt;", '%'}, {"period;", '.'}, {"plus;", '+'}, {"quest;", '?'},
    {"quot;", '"'},  {"rbrace;", '}'},   {"rbrack;", ']'}, {"rcub;", '}'},   {"rpar;", ')'},   {"rsqb;", ']'}, {"semi;", ';'},
    {"sol;", '/'},   {"verbar;", '|'},   {"vert;", '|'},
};

static int entity(const uint8_t *p, size_t len, size_t *at) {
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        size_t n;

        if (p[*at] != (uint8_t)entities[i].name[0])
            continue;
        n = strlen(entities[i].name);
        if (len - *at >= n && memcmp(p + *at, entities[i].name, n) == 0) {
            *at += n;
            return entities[i].c;
        }
    }
    return -1;
}

/* &#47; &#x2F; &sol; &amp;sol; */
static int ampersand(const uint8_t *p, size_t len, size_t *at) {
    bool hex;
    int c;

    for (size_t n = 0;
         n < NESTED_MAX && len - *at > 4 && memcmp(p + *at, "amp;", 4) == 0 && (p[*at + 4] == '#' || isalpha(p[*at + 4])); n++)
        *at += 4;
    if (*at >= len || p[*at] != '#')
        return *at < len ? entity(p, len, at) : -1;
    ++*at;
    hex = *at < len && (p[*at] | 0x20) == 'x';
    *at += hex;
    c = number(p, len, at, hex ? 16 : 10, 1, NUMBER_MAX);
    return *at < len && p[(*at)++] == ';' ? c : -1;
}

int cover_escaped(const uint8_t *p, size_t len, size_t *ret_len) {
    size_t at = 1;
    int c = -1;

    switch (p[0]) {
    case '%':
        c = percent(p, len, &at);
        break;
    case '\\':
        c = backslash(p, len, &at);
        break;
    case '&':
        c = ampersand(p, len, &at);
        break;
    case '=':
        c = number(p, len, &at, 16, 2, 2);
        break;
    }
    *ret_len = at;
    return c;
}

static size_t line_end(const uint8_t *p, size_t len) {
    size_t at = len > 1 && p[0] == '\r' && p[1] == '\n';

    if (p[at] != '\n' && p[at] != '\r')
        return 0;
    for (at++; at < len && at < INDENT_MAX && (p[at] == ' ' || p[at] == '\t');)
        at++;
    return at;
}

size_t cover_gap(uint8_t kind, const uint8_t *p, size_t len) {
    size_t n = line_end(p, len);
    int c;

    if (n || p[0] == 0)
        return n ? n : 1;
    if (kind == COVER_HEX && (p[0] == ':' || p[0] == ' ' || p[0] == '-'))
        return 1;
    if (!cover_is_lead(p[0]))
        return 0;
    if ((p[0] == '=' || p[0] == '\\') && len > 1 && (n = line_end(p + 1, len - 1)))
        return 1 + n;
    c = cover_escaped(p, len, &n);
    return c == '\n' || c == '\r' ? n : 0;
}

static const char low[] = "0123456789abcdef", high[] = "0123456789ABCDEF";

struct starts {
    char (*v)[3];
    size_t n, max;
};

static void start_escape(struct starts *s, char a, char b, char c) {
    if (s->n == s->max)
        BUG("more ways to begin an escape than there is room for");
    s->v[s->n][0] = a;
    s->v[s->n][1] = b;
    s->v[s->n++][2] = c;
}

static void numeric_starts(struct starts *s, uint8_t c) {
    int decimal = c >= 100 ? c / 100 : c >= 10 ? c / 10 : c, octal = c >> 6;

    for (int i = 0; i < 2; i++) {
        const char *digits = i ? high : low;

        start_escape(s, '%', digits[c >> 4], digits[c & 15]);
        start_escape(s, '=', digits[c >> 4], digits[c & 15]);
        start_escape(s, '\\', 'x', digits[c >> 4]);
    }
    start_escape(s, '\\', (char)('0' + octal), (char)('0' + (c >> 3 & 7)));
    start_escape(s, '\\', '\\', (char)('0' + octal));
    start_escape(s, '&', '#', (char)('0' + decimal));
    start_escape(s, '&', '#', '0');
}

size_t cover_escape_starts(uint8_t c, char ret[][3], size_t max) {
    static const char always[][3] = {{'%', '2', '5'},   {'%', 'u', '0'},    {'\\', 'u', '0'},  {'\\', 'u', '{'},
                                     {'\\', 'x', '{'},  {'\\', 'U', '0'},   {'\\', '\\', 'u'}, {'\\', '\\', 'x'},
                                     {'\\', '\\', 'U'}, {'\\', '\\', '\\'}, {'&', '#', 'x'},   {'&', '#', 'X'},
                                     {'&', 'a', 'm'}};
    struct starts s = {.v = ret, .max = max};

    for (size_t i = 0; i < ARRAY_LEN(always); i++)
        start_escape(&s, always[i][0], always[i][1], always[i][2]);
    numeric_starts(&s, c);
    if (isalnum(c)) /* has no name */
        return s.n;
    start_escape(&s, '\\', (char)c, (char)c);
    start_escape(&s, '\\', '\\', (char)c);
    for (size_t i = 0; i < ARRAY_LEN(entities); i++)
        if (entities[i].c == (char)c)
            start_escape(&s, '&', entities[i].name[0], entities[i].name[1]);
    return s.n;
}
