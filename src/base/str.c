/* SPDX-License-Identifier: Apache-2.0 */
/* Strings. */
#include "base/str.h"

#include <errno.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool str_starts(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_below(const char *path, const char *dir) {
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

int str_compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

bool str_ends(const char *s, const char *suffix) {
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && str_eq(s + n - m, suffix);
}

size_t str_utf8_len(const char *s) {
    const unsigned char *u = (const unsigned char *)s;
    static const struct {
        unsigned char lo, hi, lo2, hi2;
        size_t len;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        if (u[0] < forms[i].lo || u[0] > forms[i].hi)
            continue;
        if (forms[i].len >= 2 && (u[1] < forms[i].lo2 || u[1] > forms[i].hi2))
            return 0;
        for (size_t k = 2; k < forms[i].len; k++)
            if ((u[k] & 0xc0) != 0x80)
                return 0;
        return forms[i].len;
    }
    return 0;
}

bool str_is_utf8(const char *s) {
    while (*s) {
        size_t n = str_utf8_len(s);

        if (n == 0)
            return false;
        s += n;
    }
    return true;
}

enum { NEAREST_MAX = 40 };

/* Insertions, deletions, replacements and swaps of neighbours. */
static size_t distance(const char *a, const char *b) {
    size_t rows[3][NEAREST_MAX + 1], la = strlen(a), lb = strlen(b);

    if (la > NEAREST_MAX || lb > NEAREST_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = MIN_OF(row[j], above[j] + 1);
            row[j] = MIN_OF(row[j], row[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = MIN_OF(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[la % 3][lb];
}

const char *str_nearest(const char *word, const char *const *candidates, size_t n) {
    const char *best = NULL;
    size_t best_d = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, candidates[i]);

        if (d < best_d) {
            best_d = d;
            best = candidates[i];
        }
    }
    return best && best_d <= MAX_OF(strlen(word) / 3, (size_t)1) ? best : NULL;
}

int str_index(const char *word, const char *const *names, size_t n) {
    for (size_t i = 0; word && i < n; i++)
        if (names[i] && str_eq(word, names[i]))
            return (int)i;
    return -1;
}

int str_set(char **to, const char *value) {
    char *copy = value ? strdup(value) : NULL;

    if (value && !copy)
        return -ENOMEM;
    free(*to);
    *to = copy;
    return 0;
}

char *str_dupf(const char *fmt, ...) {
    char *s = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    return n < 0 ? NULL : s;
}

void freep(void *p) {
    void **owner = p;

    free(*owner);
    *owner = NULL;
}
