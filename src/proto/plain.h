/* SPDX-License-Identifier: Apache-2.0 */
/* Strings in messages of fixed size, whose sender may have been taken over. */
#pragma once

#include "base/macros.h"

/* Printable to its end, and nothing behind its end. False: it does not end. */
static inline bool plain_make(char *s, size_t size) {
    size_t len = strnlen(s, size);

    if (len == size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (s[i] < 0x20 || s[i] > 0x7e)
            s[i] = '?';
    memset(s + len, 0, size - len);
    return true;
}
