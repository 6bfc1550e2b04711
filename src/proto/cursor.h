/* SPDX-License-Identifier: Apache-2.0 */
/* What is left to decode of a message. Nothing is read past its end; strings point into it, and may be written if it may (strchr(3)). */
#pragma once

#include <errno.h>

#include "base/macros.h"

struct cursor {
    const char *p;
    size_t left;
};

/* The next n bytes; NULL: there are less. */
static inline const void *cursor_skip(struct cursor *c, size_t n) {
    const char *p = c->p;

    if (c->left < n)
        return NULL;
    c->p += n;
    c->left -= n;
    return p;
}

static inline int cursor_take(struct cursor *c, void *to, size_t len) {
    const void *from = cursor_skip(c, len);

    if (from && len)
        memcpy(to, from, len);
    return from ? 0 : -EBADMSG;
}

/* NULL: it has no end. */
static inline char *cursor_string(struct cursor *c) {
    const char *end = memchr(c->p, 0, c->left), *s = c->p;

    if (!end)
        return NULL;
    c->left -= (size_t)(end - c->p) + 1;
    c->p = end + 1;
    return (char *)(uintptr_t)s;
}

/* A malloc'ed array with NULL at its end, or NULL. Each string has at least a NUL, so an absurd n is seen before memory is taken. */
static inline char **cursor_strings(struct cursor *c, size_t n) {
    char **v = n > c->left ? NULL : calloc(n + 1, sizeof *v);

    for (size_t i = 0; v && i < n; i++) {
        v[i] = cursor_string(c);
        if (!v[i]) {
            free(v);
            return NULL;
        }
    }
    return v;
}
