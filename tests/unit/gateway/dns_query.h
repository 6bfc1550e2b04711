/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for tests. */
#pragma once

#include "proto/dns.h"

/* A name as text becomes labels at its dots, whatever is between them. */
static size_t make_query(uint8_t *out, const char *name, unsigned type, bool edns) {
    size_t at = 12;

    memcpy(out, "\x12\x34\1\0\0\1\0\0\0\0\0", 11);
    out[11] = edns;
    for (const char *label = name; *label;) {
        size_t n = strcspn(label, ".");

        out[at++] = (uint8_t)n;
        memcpy(out + at, label, n);
        at += n;
        label += n + (label[n] == '.');
    }
    out[at++] = 0;
    out[at++] = (uint8_t)(type >> 8);
    out[at++] = (uint8_t)type;
    out[at++] = 0;
    out[at++] = DNS_CLASS_IN;
    memcpy(out + at, "\0\0\x29\4\xd0\0\0\0\0\0", 11);
    return at + (edns ? 11 : 0);
}
