/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for some strings in bytes that pass, also if they come in pieces. Used for placeholders in what the sandbox sends, which
 * are no secrets (for values in what it gets: cover.h). Few patterns (tens), so making one is cheap (Wu-Manber: a
 * small table of shifts for the last two bytes of a window that is as long as the shortest pattern, or FINDER_WINDOW), and most
 * bytes are never looked at.
 */
#pragma once

#include "base/macros.h"

struct finder;

enum { FINDER_MIN = 6, FINDER_MAX = 64 * 1024, FINDER_WINDOW = 32, FINDER_PATTERNS_MAX = 4096 };

int finder_new(struct finder **ret);
void finder_free(struct finder *f); /* zeroes all it holds; NULL is fine */
/* Shorter than FINDER_MIN: left out, 0. -ENOMEM, -E2BIG. tag comes back with a match. */
int finder_add(struct finder *f, const char *p, size_t len, uint32_t tag);
/* The bytes themselves, base64 and base64url in their three alignments (without what depends on the neighbours), hex in
 * small letters and capitals, every byte as %xx and %XX, URL-encoded as clients do it, with JSON or HTML escapes, and
 * reversed. The same form is taken once. */
int finder_add_forms(struct finder *f, const char *p, size_t len, uint32_t tag);
int finder_build(struct finder *f); /* after the last add */

/* The first match in one piece. */
struct finder_match {
    size_t at, len;
    uint32_t tag;
};
bool finder_find(const struct finder *f, const void *data, size_t len, struct finder_match *ret);

/* A stream of pieces. Zeroed memory is a new one. */
struct finder_stream {
    char *held; /* the last bytes, as far as a pattern may have begun in them */
    size_t len, cap;
};
void finder_stream_done(struct finder_stream *s); /* zeroes */
/* Is there a match in the stream so far that ends in this piece? -ENOMEM, 0, 1 with *ret_tag. */
int finder_watch(const struct finder *f, struct finder_stream *s, const void *data, size_t len, uint32_t *ret_tag);
