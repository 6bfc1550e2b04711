/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc/self/mountinfo. */
#include "os/mountinfo.h"

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
