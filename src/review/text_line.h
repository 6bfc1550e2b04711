/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a text that need not end with NUL: without their end, which may be \n or \r\n. */
#pragma once

#include <stddef.h>

#include "base/macros.h"

/* *pos moves on. False: no more lines. */
struct text_line {
    const char *s;
    size_t len;
    unsigned number;
};

bool text_line_next(const char *data, size_t len, size_t *pos, struct text_line *line);
