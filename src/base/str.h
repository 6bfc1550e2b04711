/* SPDX-License-Identifier: Apache-2.0 */
/* Small string helpers. Nothing here allocates unless its name says dup or join. */
#pragma once

#include "base/macros.h"

static inline bool str_eq(const char *a, const char *b) {
    return __builtin_strcmp(a, b) == 0;
}

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* "/a/b" is below "/a"; "/a" and "/ab" are not. */
bool str_below(const char *path, const char *dir);

/* Length in bytes of the valid UTF-8 character at s (1 to 4), 0 if the bytes are not valid UTF-8. s[0] != 0. */
size_t str_utf8_len(const char *s);
bool str_is_utf8(const char *s);

/* The candidate nearest to word by edit distance, or NULL if none is near enough to be a likely slip. */
const char *str_nearest(const char *word, const char *const *candidates, size_t n);

/* The place of word in an array of names, some of which may be NULL; -1: it is not there. word may be NULL. */
int str_index(const char *word, const char *const *names, size_t n);

/* Frees *to and makes it a copy of value, which may be NULL. -ENOMEM: *to is as before. */
int str_set(char **to, const char *value);

/* "1 file", "2 files": the word for so many. */
static inline const char *str_plural(uint64_t n, const char *one, const char *many) {
    return n == 1 ? one : many;
}

/* A malloc'ed string; NULL if memory runs out. */
char *str_dupf(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* For qsort(3) and bsearch(3) of an array of strings: by bytes. */
int str_compare(const void *a, const void *b);

/* For CLEANUP(freep) char *s = NULL; */
void freep(void *p);
