/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redacts values of credentials in what a server says: each of their bytes becomes '*'. In identifiers of the gate that is "to cover".
 * A value is searched as a whole, however it is written:
 *
 *   - as it is, reversed, as hexadecimal digits (also "aa:bb"), base32 and base64 (either alphabet, wherever it begins);
 *   - each character of these as it is or escaped, mixed at will: %2F %252F %u002F, \/ \x2F \u002F \u{2f} \057 (also behind
 *     several backslashes), &#47; &#x2F; &sol; &amp;#47;, =2F, and '+' for a space;
 *   - with line ends of any spelling between the characters (wrapped base64, soft line breaks of quoted-printable), or a NUL
 *     (UTF-16);
 *   - and every run of at least COVER_SEGMENT_MIN letters and digits between two characters that encoders change, so that an
 *     escape which is not in this list leaves none of these readable.
 *
 * Never a part of a value but these. Otherwise a sandbox that can place text in an answer would learn a value letter by letter from
 * what is covered, behind a public beginning ("sk-ant-", "ghp_"). For the same reason a first run counts without such a beginning.
 *
 * What is held back does not depend on the bytes: always the last cover_tail() ones, which is one less than the longest match.
 * They go when the caller says so: at the end of a message, or by the clock. A match that goes on after that is covered from
 * there on. So when bytes come out, and how many, says nothing about the value but the size of its tail, a power of two.
 *
 * The search looks at every second pair of bytes, in a table of those that may stand at the first or second place of a match, and
 * tries the few places that are left: at most texts x COVER_LONGEST_MAX x COVER_WAYS steps for each, whatever the bytes are.
 */
#pragma once

#include "base/macros.h"

struct buf;
struct cover;

enum {
    COVER_VALUE_MIN = 6,
    COVER_VALUE_MAX = 64 * 1024,
    COVER_TEXTS_MAX = 16 * 1024,
    COVER_SEGMENT_MIN = 8,
    COVER_GROWS = 8,               /* a match has at most so many bytes for each of the value, */
    COVER_LONGEST_MAX = 64 * 1024, /* and at most so many at all: of values with more than 8 KiB some forms are not found */
    COVER_WAYS = 8                 /* readings of the same bytes that are followed at once */
};
#define COVER_HOLD SIZE_MAX

int cover_new(struct cover **ret);
void cover_free(struct cover *c); /* zeroes all it holds; NULL is fine */
/* Shorter than COVER_VALUE_MIN: left out, 0. -ENOMEM, -E2BIG */
int cover_add(struct cover *c, const char *value, size_t len);
void cover_build(struct cover *c); /* after the last add */
size_t cover_tail(const struct cover *c);

/* Text that is whole: a field of a head. True if something was covered. */
bool cover_text(struct cover *c, char *text, size_t len);

/* A stream of pieces. Zeroed memory is a new one. */
struct cover_stream {
    char *held; /* the last cover_tail() bytes, or all */
    size_t len, cap;
    size_t covered; /* of these: the first so many belong to a match */
    size_t sent;    /* of these: the first so many have gone out already */
};
void cover_stream_done(struct cover_stream *s); /* zeroes */
/* Adds to out what does not belong to the tail any more, and at least the first `upto` bytes of this piece with all before them.
 * upto COVER_HOLD: only that. As many bytes go out as came in. -ENOMEM, and out is marked as failed. */
int cover_pass(struct cover *c, struct cover_stream *s, const void *data, size_t len, size_t upto, struct buf *out);
static inline bool cover_holds(const struct cover_stream *s) {
    return s->sent < s->len;
}
uint64_t cover_steps(const struct cover *c); /* of the slow part of the search, so far: for tests */
