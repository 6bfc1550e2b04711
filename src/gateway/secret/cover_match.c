/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for values, whatever escapes are between their letters. */
#include <string.h>

#include "gateway/secret/cover_priv.h"

/* Behind a character: the beginning of an escape, or of what lies between two characters. */
static const uint8_t behind[] = {'%', '\\', '&', '=', 0, '\n', '\r'};
static const uint8_t hex_behind[] = {':', ' ', '-'};

/* Places up to which the characters so far may reach: one, but for values with the beginning of an escape in them. */
struct front {
    size_t at[COVER_WAYS];
    size_t n;
};

static void reach(struct front *f, size_t at) {
    for (size_t i = 0; i < f->n; i++)
        if (f->at[i] == at)
            return;
    if (f->n < COVER_WAYS)
        f->at[f->n++] = at;
}

/* The beginning of an escape that is escaped itself, which cover_escaped() takes for a part of what follows; and quotes within quotes
 * (CSV, SQL, shells). */
static void take_quoted(uint8_t want, const uint8_t *p, size_t len, size_t at, struct front *next) {
    static const char *const ways[] = {"%25", "%2525", "\\\\", "\\\\\\\\", "&amp;", "&amp;amp;", "'\\''", "''", "\"\""};

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        size_t n = strlen(ways[i]);

        if ((uint8_t)ways[i][0] == want && len - at >= n && memcmp(p + at, ways[i], n) == 0)
            reach(next, at + n);
    }
}

static bool is_quoted(uint8_t c) {
    return c == '%' || c == '\\' || c == '&' || c == '\'' || c == '"';
}

static void take_char(uint8_t kind, uint8_t want, const uint8_t *p, size_t len, size_t at, struct front *next) {
    size_t n = 0;
    int c;

    if (at >= len)
        return;
    if (cover_is_lead(p[at])) {
        c = cover_escaped(p + at, len - at, &n);
        if (c >= 0 && cover_char_is(kind, want, (uint8_t)c))
            reach(next, at + n);
    }
    if (p[at] == want && is_quoted(want))
        take_quoted(want, p, len, at, next);
    if (cover_char_is(kind, want, p[at]))
        reach(next, at + 1);
}

static void step_match(uint8_t kind, uint8_t want, const uint8_t *p, size_t len, struct front *f) {
    struct front next = {.n = 0};

    for (size_t i = 0; i < f->n; i++) {
        size_t at = f->at[i], gap = 1;

        take_char(kind, want, p, len, at, &next);
        for (size_t k = 0; k < COVER_GAPS_MAX && gap && at < len && (!cover_folds[p[at]] || kind == COVER_HEX); k++) {
            gap = at && !p[at] && !p[at - 1] ? 0 : cover_gap(kind, p + at, len - at); /* one NUL: UTF-16 */
            at += gap;
            if (gap)
                take_char(kind, want, p, len, at, &next);
        }
    }
    *f = next;
}

/* How many bytes at p are the text; 0: they are not. */
static size_t match(struct cover *c, const struct cover_text *t, const uint8_t *p, size_t len) {
    struct front f = {.n = 0};
    size_t longest = 0, i = 0;

    take_char(t->kind, cover_char(c, t, 0), p, len, 0, &f);
    for (i = 1; i < t->len && f.n; i++) {
        uint8_t want = cover_char(c, t, i);

        if (f.n == 1 && f.at[0] < len && !cover_is_lead(p[f.at[0]]) && !is_quoted(want) &&
            cover_char_is(t->kind, want, p[f.at[0]]))
            f.at[0]++;
        else
            step_match(t->kind, want, p, len, &f);
    }
    c->steps += i;
    for (i = 0; i < f.n; i++)
        longest = MAX_OF(longest, f.at[i]);
    return longest;
}

/* What the bytes behind a character may mean: cover_fold() of characters. */
struct meanings {
    uint8_t v[2 * (COVER_GAPS_MAX + 1)];
    size_t n;
};

static void add_meanings(struct meanings *m, const uint8_t *p, size_t len) {
    size_t at = 0, n = 1;

    for (size_t k = 0; k <= COVER_GAPS_MAX && n && at < len; k++) {
        int c = cover_is_lead(p[at]) ? cover_escaped(p + at, len - at, &n) : -1;

        m->v[m->n++] = cover_fold(p[at]);
        if (c >= 0)
            m->v[m->n++] = cover_fold((uint8_t)c);
        n = cover_folds[p[at]] || (at && !p[at] && !p[at - 1]) ? 0 : cover_gap(COVER_RAW, p + at, len - at);
        at += n;
    }
}

/* Most texts are ruled out by the second character. */
static bool may_match(const struct cover_text *t, const struct meanings *m, const uint8_t *p) {
    if (t->kind == COVER_HEX && memchr(hex_behind, p[1], sizeof hex_behind))
        return true;
    if (!memchr(m->v, t->head[1], m->n))
        return false;
    return !cover_folds[p[1]] || !cover_folds[p[2]] || t->kind == COVER_HEX || cover_folds[p[2]] == t->head[2];
}

static size_t match_list(struct cover *c, uint8_t first, size_t behind_first, const uint8_t *p, size_t len) {
    struct meanings m = {.n = 0};
    bool is_lead = cover_is_lead(first) || is_quoted(first); /* may be escaped in more than one way */
    size_t longest = 0;

    if (behind_first + 1 >= len)
        return 0;
    add_meanings(&m, p + behind_first, len - behind_first);
    for (size_t i = c->firsts[cover_fold(first)]; i; i = c->texts[i - 1].next)
        if (is_lead || may_match(&c->texts[i - 1], &m, p + behind_first - 1))
            longest = MAX_OF(longest, match(c, &c->texts[i - 1], p, len));
    return longest;
}

/* The longest match that begins at p; 0: none does. */
static size_t match_at(struct cover *c, const uint8_t *p, size_t len) {
    size_t longest = 0, n;
    int escaped;

    len = MIN_OF(len, c->longest);
    if (len < COVER_VALUE_MIN)
        return 0;
    if (c->firsts[cover_fold(p[0])])
        longest = match_list(c, p[0], 1, p, len);
    if (!cover_is_lead(p[0]))
        return longest;
    escaped = cover_escaped(p, len, &n);
    if (escaped < 0 || !c->firsts[cover_fold((uint8_t)escaped)])
        return longest;
    return MAX_OF(longest, match_list(c, (uint8_t)escaped, n, p, len));
}

size_t cover_match_slowly(struct cover *c, const uint8_t *p, size_t len) {
    size_t longest = 0;

    for (size_t i = 0; i < c->n; i++)
        longest = MAX_OF(longest, match(c, &c->texts[i], p, MIN_OF(len, c->longest)));
    return longest;
}

static inline unsigned pair_at(const uint8_t *p) {
    uint16_t pair;

    memcpy(&pair, p, sizeof pair);
    return pair;
}

static inline uint64_t has_pair(const struct cover *c, const uint8_t *p) {
    unsigned pair = pair_at(p);

    return c->pairs[pair / 64] >> (pair % 64) & 1;
}

/* A match at `at` or the place before it. */
static bool match_near(struct cover *c, const uint8_t *p, size_t len, size_t at, size_t from, size_t to, size_t *ret_at,
                       size_t *ret_len) {
    for (size_t s = at > from ? at - 1 : from; s <= at && s < to; s++) {
        *ret_len = match_at(c, p + s, len - s);
        *ret_at = s;
        if (*ret_len)
            return true;
    }
    return false;
}

/* The first of every second pair from `at` on, before `end`, that is in the table. */
static size_t next_pair(const struct cover *c, const uint8_t *p, size_t at, size_t end) {
    while (end > 8 && at < end - 8 &&
           !(has_pair(c, p + at) | has_pair(c, p + at + 2) | has_pair(c, p + at + 4) | has_pair(c, p + at + 6)))
        at += 8;
    while (at < end && !has_pair(c, p + at))
        at += 2;
    return at;
}

bool cover_find(struct cover *c, const uint8_t *p, size_t len, size_t from, size_t to, size_t *ret_at, size_t *ret_len) {
    size_t end;

    if (!c->longest || len < COVER_VALUE_MIN)
        return false;
    end = MIN_OF(MIN_OF(to, len) + 1, len - 1);
    for (size_t at = from + 1; (at = next_pair(c, p, at, end)) < end; at += 2) /* sees a match that begins there or one before */
        if (match_near(c, p, len, at, from, to, ret_at, ret_len))
            return true;
    return false;
}

static void set_pair(struct cover *c, uint8_t a, uint8_t b) {
    unsigned pair = pair_at((uint8_t[]){a, b});

    c->pairs[pair / 64] |= (uint64_t)1 << (pair % 64);
}

/* The bytes that may stand for a character of the text without an escape: at most four. */
static size_t spellings(uint8_t kind, uint8_t want, uint8_t ret[static 4]) {
    const uint8_t may[] = {want, want | 0x20, want & (uint8_t)~0x20, '-', '_', '+'};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(may); i++)
        if (n < 4 && cover_char_is(kind, want, may[i]) && !memchr(ret, may[i], n))
            ret[n++] = may[i];
    return n;
}

static void add_behind(struct cover *c, uint8_t kind, uint8_t byte) {
    for (size_t i = 0; i < ARRAY_LEN(behind); i++)
        set_pair(c, byte, behind[i]);
    for (size_t i = 0; kind == COVER_HEX && i < ARRAY_LEN(hex_behind); i++)
        set_pair(c, byte, hex_behind[i]);
}

/* Before the second character of a text. */
static void add_gaps(struct cover *c, uint8_t kind, const uint8_t *next, size_t n) {
    for (size_t i = 0; i < n; i++) {
        set_pair(c, 0, next[i]);
        set_pair(c, '\n', next[i]);
        set_pair(c, '\r', next[i]);
        for (size_t k = 0; kind == COVER_HEX && k < ARRAY_LEN(hex_behind); k++)
            set_pair(c, hex_behind[k], next[i]);
    }
}

/* Of gaps, whatever the text is. */
static void add_fixed(struct cover *c) {
    static const uint8_t fixed[][2] = {{'\r', '\n'}, {'\n', ' '},  {'\n', '\t'}, {'=', '\n'}, {'=', '\r'}, {'\\', 'n'},
                                       {'\\', 'r'},  {'\\', '\n'}, {'\\', '\r'}, {'%', '0'},  {'\r', ' '}, {'\r', '\t'},
                                       {'\n', '\n'}, {'\r', '\r'}, {'=', '0'},   {0, '\n'},   {0, '\r'},   {'\n', 0},
                                       {'\r', 0},    {'\n', '\r'}, {'\\', '0'},  {'&', 'N'}};

    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        set_pair(c, fixed[i][0], fixed[i][1]);
    for (size_t k = 0; k < 4; k++) { /* escapes, for those that are encoded wholly */
        set_pair(c, 0, behind[k]);
        set_pair(c, '\n', behind[k]);
        set_pair(c, '\r', behind[k]);
    }
}

static void add_escapes(struct cover *c, uint8_t want, bool second) {
    char starts[COVER_STARTS_MAX][3];
    size_t n = cover_escape_starts(want, starts, COVER_STARTS_MAX);

    for (size_t i = 0; i < n; i++) {
        set_pair(c, (uint8_t)starts[i][0], (uint8_t)starts[i][1]);
        if (!second)
            set_pair(c, (uint8_t)starts[i][1], (uint8_t)starts[i][2]);
    }
}

void cover_add_pairs(struct cover *c, const struct cover_text *t, struct cover_places *places) {
    uint8_t v[3][4];
    size_t n[3];

    for (size_t i = 0; i < 3; i++)
        n[i] = spellings(t->kind, cover_char(c, t, i), v[i]);
    for (size_t i = 0; i < 2; i++)
        for (size_t a = 0; a < n[i]; a++) {
            for (size_t b = 0; b < n[i + 1]; b++)
                set_pair(c, v[i][a], v[i + 1][b]);
            add_behind(c, t->kind, v[i][a]);
            places->seen[i][v[i][a]] = true;
        }
    add_gaps(c, t->kind, v[1], n[1]);
}

/* Each byte once: the texts of a value share most of them, and a byte has two dozen ways to be escaped. */
void cover_end_pairs(struct cover *c, const struct cover_places *places) {
    if (c->n)
        add_fixed(c);
    for (size_t byte = 0; byte <= UINT8_MAX; byte++)
        for (size_t i = 0; i < 2; i++)
            if (places->seen[i][byte])
                add_escapes(c, (uint8_t)byte, i == 1);
}
