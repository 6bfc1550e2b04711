/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of any bytes as text. */
#include "base/pathtext.h"

#include <errno.h>

#include "base/buf.h"
#include "base/str.h"

bool path_is_below(const char *path, size_t len) {
    const char *end = path + len;

    if (memchr(path, 0, len))
        return false;
    for (;;) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        size_t n = (size_t)((slash ? slash : end) - path);

        if (n == 0 || (path[0] == '.' && (n == 1 || (n == 2 && path[1] == '.'))))
            return false;
        if (!slash)
            return true;
        path = slash + 1;
    }
}

int path_next(const char **rest, char name[static NAME_MAX + 1]) {
    size_t len = strcspn(*rest, "/");
    bool more = (*rest)[len] == '/';

    if (len == 0 || len > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, *rest, len);
    name[len] = 0;
    *rest += len + more;
    return more;
}

void path_text_add(struct buf *b, const char *path) {
    while (*path) {
        size_t n = str_utf8_len(path);

        if (n == 0 || *path == '%')
            buf_addf(b, "%%%02X", (unsigned char)*path);
        else
            buf_add(b, path, n);
        path += n ? n : 1;
    }
}

static int hex_digit(char c) {
    const char *digits = "0123456789ABCDEF", *p = c ? strchr(digits, c) : NULL;

    return p ? (int)(p - digits) : -1;
}

char *path_text_parse(const char *text) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(strlen(text) + 1);

    for (; *text; text++) {
        int hi, lo;

        if (*text != '%') {
            buf_addc(&b, *text);
            continue;
        }
        hi = hex_digit(text[1]);
        lo = hi < 0 ? -1 : hex_digit(text[2]);
        if (lo < 0 || hi + lo == 0)
            return NULL;
        buf_addc(&b, (char)(hi * 16 + lo));
        text += 2;
    }
    return buf_take(&b);
}
