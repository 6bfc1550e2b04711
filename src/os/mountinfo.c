/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/self/mountinfo. */
#include "os/mountinfo.h"

#include <string.h>

#include "base/str.h"

#include <stdio.h>

void mountinfo_unescape(char *s) {
    char *to = s;

    for (; *s; s++) {
        unsigned c;

        if (*s == '\\' && sscanf(s + 1, "%3o", &c) == 1) {
            *to++ = (char)c;
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

const char *mountinfo_tail(const char *path, const char *point) {
    size_t len = str_eq(point, "/") ? 0 : strlen(point);

    if (strncmp(path, point, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return str_eq(path + len, "/") ? "" : path + len;
}
