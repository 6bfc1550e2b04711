/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of cover.h share: cover.c (values and texts), cover_escape.c (one character), cover_match.c (the search). */
#pragma once

#include "gateway/secret/cover.h"

enum { COVER_HEAD = 3, COVER_GAPS_MAX = 3 /* one behind the other */ };

enum cover_kind { COVER_RAW, COVER_REVERSED, COVER_HEX, COVER_BASE32, COVER_BASE64, COVER_KINDS };

/* One way to write a value, as characters that are computed from it when they are needed. */
struct cover_text {
    size_t at;    /* of the value, in bytes */
    uint32_t len; /* in characters */
    uint8_t kind;
    uint8_t bit;              /* BASE32, BASE64: where the first character begins in the value */
    uint16_t next;            /* of the same first character, + 1; 0: none */
    uint32_t size;            /* of the value */
    uint8_t head[COVER_HEAD]; /* cover_fold() of its first characters */
};
static_assert(COVER_TEXTS_MAX < UINT16_MAX, "lists are of 16 bits");

struct cover {
    char *bytes; /* of all values */
    size_t used, cap;
    struct cover_text *texts;
    size_t n, n_cap;
    size_t longest; /* bytes of a match; 0: there is no value */
    uint64_t steps;
    bool built;
    uint16_t firsts[UINT8_MAX + 1];        /* texts by cover_fold() of their first character */
    uint64_t pairs[(UINT16_MAX + 1) / 64]; /* two bytes that may stand at the first or second place of a match */
};

/* cover.c */
uint8_t cover_char(const struct cover *c, const struct cover_text *t, size_t i);
bool cover_char_is(uint8_t kind, uint8_t want, uint8_t c);
/* The same for all characters that may stand for one another in some text, which are never escaped or between two; 0: this one
 * may begin an escape, or stand between two. */
extern const uint8_t cover_folds[UINT8_MAX + 1];
static inline uint8_t cover_fold(uint8_t c) { /* also for these */
    return cover_folds[c] ? cover_folds[c] : c;
}

/* cover_escape.c */
static inline bool cover_is_lead(uint8_t c) { /* may begin an escape */
    return c == '%' || c == '\\' || c == '&' || c == '=';
}
/* The character that is escaped at p, and in *ret_len how many bytes that takes; -1: none. */
int cover_escaped(const uint8_t *p, size_t len, size_t *ret_len);
/* Bytes between two characters that mean nothing: line ends, NUL, "=\n"; 0: none. */
size_t cover_gap(uint8_t kind, const uint8_t *p, size_t len);
/* The first three bytes of every escape of c. */
size_t cover_escape_starts(uint8_t c, char ret[][3], size_t max);
enum { COVER_STARTS_MAX = 64 };

/* cover_match.c: the first match that begins at from or later, and before to. */
bool cover_find(struct cover *c, const uint8_t *p, size_t len, size_t from, size_t to, size_t *ret_at, size_t *ret_len);
/* The longest match that begins at p, without any table: for tests. */
size_t cover_match_slowly(struct cover *c, const uint8_t *p, size_t len);
/* For cover_build(): the bytes that may stand at the first and at the second place of a text. */
struct cover_places {
    bool seen[2][UINT8_MAX + 1];
};
void cover_add_pairs(struct cover *c, const struct cover_text *t, struct cover_places *places);
void cover_end_pairs(struct cover *c, const struct cover_places *places); /* after the last text */
