/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. A pattern becomes a row of tokens. Matching keeps two places to come back to: the last '*' and the
 * last "**". That is enough, and linear in len * tokens:
 * - a '*' cannot cross '/', so once a later '*' is reached, giving bytes back to an earlier one gains nothing: in the same
 *   name the later one could take them as well, and over a '/' the earlier one cannot reach;
 * - the part between two "**" covers a fixed number of '/', so its first match also ends first, and whatever a later
 *   start allows, the second "**" allows from the earlier end as well;
 * - each name of the path is therefore compared with each part of the pattern at most once per start of that name.
 */
#include "workspace/hide/ignore_glob.h"

#include <errno.h>

#include "base/vec.h"

struct glob_parser {
    const unsigned char *p, *end;
    struct ignore_glob *g;
};

static int at(const struct glob_parser *s, size_t ahead) {
    return s->end - s->p > (ptrdiff_t)ahead ? s->p[ahead] : -1;
}

static void set_add(struct glob_set *set, unsigned first, unsigned last) {
    for (unsigned c = first; c <= last; c++)
        set->bits[c / 64] |= UINT64_C(1) << (c % 64);
}

static bool set_has(const struct glob_set *set, unsigned char c) {
    return set->bits[c / 64] >> (c % 64) & 1;
}

/* ASCII only, whatever the locale, and as git sees it: no vertical tab or form feed among the spaces. */
static const struct {
    const char *name;
    struct {
        unsigned char first, last;
    } ranges[4];
} named_sets[] = {
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"blank", {{' ', ' '}, {'\t', '\t'}}},
    {"cntrl", {{1, 31}, {127, 127}}},
    {"digit", {{'0', '9'}}},
    {"graph", {{'!', '~'}}},
    {"lower", {{'a', 'z'}}},
    {"print", {{' ', '~'}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"space", {{' ', ' '}, {'\t', '\n'}, {'\r', '\r'}}},
    {"upper", {{'A', 'Z'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
};

static bool add_named_set(struct glob_set *set, const unsigned char *name, size_t len) {
    for (size_t i = 0; i < ARRAY_LEN(named_sets); i++)
        if (strlen(named_sets[i].name) == len && memcmp(named_sets[i].name, name, len) == 0) {
            for (size_t j = 0; j < ARRAY_LEN(named_sets[i].ranges) && named_sets[i].ranges[j].first; j++)
                set_add(set, named_sets[i].ranges[j].first, named_sets[i].ranges[j].last);
            return true;
        }
    return false;
}

enum { SET_BAD = -1, SET_PLAIN, SET_DONE };

/* At "[:". SET_PLAIN: no ":]" follows, so the '[' is literal. Leaves p on the last byte it took. */
static int parse_named_set(struct glob_parser *s, struct glob_set *set) {
    const unsigned char *name = s->p + 2, *close;

    close = name < s->end ? memchr(name, ']', (size_t)(s->end - name)) : NULL;
    if (!close)
        return SET_BAD;
    if (close == name || close[-1] != ':')
        return SET_PLAIN;
    if (!add_named_set(set, name, (size_t)(close - 1 - name)))
        return SET_BAD;
    s->p = close;
    return SET_DONE;
}

/* One member of a set: a byte, an escaped byte, the rest of a range, a named set. *prev is the byte a '-' would start from. */
static bool parse_member(struct glob_parser *s, struct glob_set *set, int *prev) {
    int c = at(s, 0), named;

    if (c == '-' && *prev > 0 && at(s, 1) > 0 && at(s, 1) != ']') {
        s->p++;
        if (at(s, 0) == '\\')
            s->p++;
        if (at(s, 0) < 0)
            return false;
        if (*prev <= at(s, 0))
            set_add(set, (unsigned)*prev, (unsigned)at(s, 0));
        *prev = 0;
        return true;
    }
    if (c == '[' && at(s, 1) == ':') {
        named = parse_named_set(s, set);
        if (named != SET_PLAIN) {
            *prev = 0;
            return named == SET_DONE;
        }
    }
    if (c == '\\') {
        s->p++;
        c = at(s, 0);
    }
    if (c < 0)
        return false;
    set_add(set, (unsigned)c, (unsigned)c);
    *prev = c;
    return true;
}

/* After the '['; leaves p after the ']'. */
static bool parse_set(struct glob_parser *s, struct glob_set *set) {
    bool negated = at(s, 0) == '!' || at(s, 0) == '^';
    int prev = 0;

    if (negated)
        s->p++;
    do { /* a ']' that comes first is a member */
        if (!parse_member(s, set, &prev))
            return false;
        s->p++;
    } while (at(s, 0) != ']');
    s->p++;
    for (size_t i = 0; negated && i < ARRAY_LEN(set->bits); i++)
        set->bits[i] = ~set->bits[i];
    return true;
}

static void push_token(struct ignore_glob *g, enum glob_kind kind, int byte) {
    g->tokens[g->n++] = (struct glob_token){.kind = (uint8_t)kind, .byte = (uint8_t)byte};
}

static int push_set(struct glob_parser *s, const struct glob_set *set) {
    struct ignore_glob *g = s->g;

    if (VEC_ADD(g->sets, g->n_sets, *set) < 0)
        return -ENOMEM;
    if (g->path) /* "[a/]" and "[!a]" never match a '/' */
        g->sets[g->n_sets - 1].bits['/' / 64] &= ~(UINT64_C(1) << ('/' % 64));
    push_token(g, GLOB_CLASS, 0);
    g->tokens[g->n - 1].set = (uint16_t)(g->n_sets - 1);
    return 1;
}

/* A run of stars. Two or more cross '/' only where they are a whole name: after '/' or at the first wildcard, before '/' or the end. */
static void parse_stars(struct glob_parser *s, bool open) {
    size_t n = 0;

    while (at(s, n) == '*')
        n++;
    s->p += n;
    if (n == 1 || !s->g->path || !open || (s->p < s->end && at(s, 0) != '/' && !(at(s, 0) == '\\' && at(s, 1) == '/'))) {
        push_token(s->g, GLOB_STAR, 0);
    } else if (at(s, 0) == '/') {
        push_token(s->g, GLOB_FOLDERS, 0);
        s->p++;
    } else {
        push_token(s->g, GLOB_DEEP, 0);
    }
}

/* The first wildcard counts as a beginning ("a**" + "/b" matches "ab"): git compares the bytes before it by themselves. */
static int parse_glob(struct glob_parser *s, const unsigned char *begin, const unsigned char *first_wildcard) {
    int r = 1;

    while (s->p < s->end && r > 0) {
        struct glob_set set = {0};

        switch (*s->p) {
        case '*':
            parse_stars(s, s->p == begin || s->p == first_wildcard || s->p[-1] == '/');
            continue;
        case '?':
            push_token(s->g, GLOB_ANY, 0);
            break;
        case '[':
            s->p++;
            r = parse_set(s, &set) ? push_set(s, &set) : 0;
            continue;
        case '\\':
            if (++s->p == s->end)
                return 0;
            push_token(s->g, GLOB_BYTE, *s->p);
            break;
        default:
            push_token(s->g, GLOB_BYTE, *s->p);
        }
        s->p++;
    }
    return r;
}

bool glob_is(const char *pattern, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (pattern[i] == '*' || pattern[i] == '?' || pattern[i] == '[' || pattern[i] == '\\')
            return true;
    return false;
}

int glob_compile(const char *pattern, size_t len, bool path, struct ignore_glob *ret) {
    const unsigned char *begin = (const unsigned char *)pattern, *first = begin;
    struct ignore_glob g = {.tokens = calloc(len + 1, sizeof *g.tokens), .path = path};
    struct glob_parser s = {.p = begin, .end = begin + len, .g = &g};
    int r;

    if (!g.tokens)
        return -ENOMEM;
    while (first < s.end && !strchr("*?[\\", *first))
        first++;
    r = parse_glob(&s, begin, first);
    if (r <= 0)
        glob_done(&g);
    else
        *ret = g;
    return r;
}

void glob_done(struct ignore_glob *g) {
    free(g->tokens);
    free(g->sets);
    *g = (struct ignore_glob){0};
}

/* Where a wildcard is in the pattern (0: none yet, else number of the token + 1) and how far it reaches in the text. */
struct retry {
    size_t token, text;
};

/* Gives the star one byte more. */
static bool extend_star(struct retry *star, const char *text, size_t len) {
    if (!star->token || star->text >= len || text[star->text] == '/')
        return false;
    star->text++;
    return true;
}

static bool extend_deep(const struct ignore_glob *g, struct retry *deep, const char *text, size_t len) {
    const char *slash;

    if (!deep->token || deep->text >= len)
        return false;
    if (g->tokens[deep->token - 1].kind == GLOB_DEEP) {
        deep->text++;
        return true;
    }
    slash = memchr(text + deep->text, '/', len - deep->text);
    if (slash)
        deep->text = (size_t)(slash - text) + 1;
    return slash;
}

static bool takes(const struct ignore_glob *g, const struct glob_token *k, char c) {
    switch (k->kind) {
    case GLOB_BYTE:
        return k->byte == (unsigned char)c;
    case GLOB_ANY:
        return c != '/' || !g->path;
    case GLOB_CLASS:
        return set_has(&g->sets[k->set], (unsigned char)c);
    }
    return false;
}

bool glob_match(const struct ignore_glob *g, size_t from, const char *text, size_t len) {
    struct retry star = {0}, deep = {0};
    size_t i = from, t = 0;

    for (;;) {
        if (i == g->n && t == len)
            return true;
        if (i < g->n && g->tokens[i].kind == GLOB_STAR) {
            star = (struct retry){++i, t};
        } else if (i < g->n && g->tokens[i].kind >= GLOB_DEEP) {
            if (g->tokens[i].kind == GLOB_DEEP && i + 1 == g->n)
                return true;
            deep = (struct retry){++i, t};
            star.token = 0;
        } else if (i < g->n && t < len && takes(g, &g->tokens[i], text[t])) {
            i++;
            t++;
        } else if (extend_star(&star, text, len)) {
            i = star.token;
            t = star.text;
        } else if (extend_deep(g, &deep, text, len)) {
            star.token = 0;
            i = deep.token;
            t = deep.text;
        } else {
            return false;
        }
    }
}
