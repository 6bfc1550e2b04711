/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pattern of an ignore file, compiled. What the bytes mean is what git's wildmatch() makes of them, its corner cases
 * included.
 */
#pragma once

#include "base/macros.h"

enum glob_kind {
    GLOB_BYTE,    /* exactly this byte */
    GLOB_ANY,     /* one byte; with `path`, not '/' */
    GLOB_CLASS,   /* one byte of a set */
    GLOB_STAR,    /* any bytes but '/' */
    GLOB_DEEP,    /* any bytes */
    GLOB_FOLDERS, /* nothing, or any bytes that end with '/' */
};

struct glob_token {
    uint8_t kind, byte;
    uint16_t set; /* GLOB_CLASS: number of the set */
};

struct glob_set {
    uint64_t bits[4];
};

struct ignore_glob {
    struct glob_token *tokens;
    size_t n;
    struct glob_set *sets;
    size_t n_sets;
    bool path;
};

/*
 * With `path`, wildcards stop at '/' and "**" can cross it; without, the pattern is for a name in which no '/' occurs.
 * Returns 1, or 0 if the pattern can match nothing (unclosed bracket, a backslash at the end), or -ENOMEM.
 */
int glob_compile(const char *pattern, size_t len, bool path, struct ignore_glob *ret);
/* False: it stands for itself, byte by byte. */
bool glob_is(const char *pattern, size_t len);
void glob_done(struct ignore_glob *g);

/* tokens[from] onwards against the whole text; O(n * len). */
bool glob_match(const struct ignore_glob *g, size_t from, const char *text, size_t len);
