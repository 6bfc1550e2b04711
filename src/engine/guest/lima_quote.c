/* SPDX-License-Identifier: Apache-2.0 */
/* Strings of YAML. */
#include <errno.h>

#include "base/str.h"
#include "engine/guest/guest.h"

static unsigned utf8_value(const char *s, size_t len) {
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned c = (unsigned char)s[0] & mask[len];

    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

/* Everything but plain ASCII is escaped: YAML forbids some characters, and takes others for the end of a line. */
int lima_quote(const char *text, struct buf *out) {
    buf_addc(out, '"');
    while (*text) {
        size_t len = str_utf8_len(text);
        unsigned c = len ? utf8_value(text, len) : 0;

        if (len == 0)
            return -EILSEQ;
        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", (char)c);
        else if (c >= ' ' && c < 0x7f)
            buf_addc(out, (char)c);
        else
            buf_addf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        text += len;
    }
    buf_addc(out, '"');
    return 0;
}
