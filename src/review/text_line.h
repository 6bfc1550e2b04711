/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a text that need not end with NUL: without their end, which may be \n or \r\n. */
#pragma once

#include <string.h>

#include "base/macros.h"

struct text_line {
    const char *s;
    size_t len;
    unsigned number;
};

/* *pos moves on. False: no more lines. */
static inline bool text_line_next(const char *data, size_t len, size_t *pos, struct text_line *line) {
    const char *end;

    if (*pos >= len)
        return false;
    line->s = data + *pos;
    end = memchr(line->s, '\n', len - *pos);
    line->len = end ? (size_t)(end - line->s) : len - *pos;
    *pos += line->len + (end != NULL);
    if (line->len && line->s[line->len - 1] == '\r')
        line->len--;
    line->number++;
    return true;
}
