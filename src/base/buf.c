/* SPDX-License-Identifier: Apache-2.0 */
/* Growing text with a ceiling. */
#include "base/buf.h"

#include <stdarg.h>

#include "base/str.h"

void buf_done(struct buf *b) {
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void buf_clear(struct buf *b) {
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

static bool reserve(struct buf *b, size_t more) {
    size_t need, cap;
    char *grown;

    if (b->failed)
        return false;
    if (more > b->ceiling || b->len > b->ceiling - more) {
        b->failed = true;
        return false;
    }
    need = b->len + more + 1;
    if (need <= b->cap)
        return true;
    cap = MAX_OF(b->cap * 2, MAX_OF(need, (size_t)64));
    grown = realloc(b->data, cap);
    if (!grown) {
        b->failed = true;
        return false;
    }
    b->data = grown;
    b->cap = cap;
    return true;
}

void buf_add(struct buf *b, const void *data, size_t len) {
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
}

void buf_adds(struct buf *b, const char *s) {
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c) {
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...) {
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(b, (size_t)n)) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

/* C1 controls (U+0080..U+009F) and bidirectional overrides reprogram a terminal or a reader's eye. */
static bool deceptive(const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;

    if (n == 2 && u[0] == 0xc2 && u[1] < 0xa0)
        return true;
    if (n == 3 && u[0] == 0xe2 && u[1] == 0x80 && (u[2] >= 0xaa && u[2] <= 0xae))
        return true;
    return n == 3 && u[0] == 0xe2 && u[1] == 0x81 && u[2] >= 0xa6 && u[2] <= 0xa9;
}

/* A character of two or three bytes as \\uXXXX. */
static void add_escaped(struct buf *b, const char *s, size_t n) {
    const unsigned char *u = (const unsigned char *)s;
    unsigned code = n == 2 ? (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu) : (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);

    buf_addf(b, "\\u%04x", code);
}

/* How many bytes mean themselves in JSON and on a terminal. */
static size_t plain_len(const char *s) {
    size_t n = 0;

    while (s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
        n++;
    return n;
}

void buf_add_json(struct buf *b, const char *s) {
    buf_addc(b, '"');
    while (*s) {
        size_t plain = plain_len(s), n = str_utf8_len(s);
        unsigned char c = (unsigned char)*s;

        if (plain) {
            buf_add(b, s, plain);
            s += plain;
            continue;
        }
        if (n == 0) {
            buf_adds(b, "\xef\xbf\xbd");
            s++;
            continue;
        }
        if (deceptive(s, n))
            add_escaped(b, s, n);
        else if (c == '"' || c == '\\')
            buf_addf(b, "\\%c", c);
        else if (c == '\n')
            buf_adds(b, "\\n");
        else if (c < 0x20 || c == 0x7f)
            buf_addf(b, "\\u%04x", c);
        else
            buf_add(b, s, n);
        s += n;
    }
    buf_addc(b, '"');
}

void buf_add_printable(struct buf *b, const char *s) {
    while (*s) {
        size_t n = str_utf8_len(s);
        unsigned char c = (unsigned char)*s;

        if (n == 0 || c < 0x20 || c == 0x7f) {
            buf_addf(b, "\\x%02x", c);
            s++;
            continue;
        }
        if (deceptive(s, n))
            for (size_t i = 0; i < n; i++)
                buf_addf(b, "\\x%02x", (unsigned char)s[i]);
        else
            buf_add(b, s, n);
        s += n;
    }
}

void buf_add_shell(struct buf *b, const char *s) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,@%";

    if (*s && strspn(s, plain) == strlen(s)) {
        buf_adds(b, s);
        return;
    }
    buf_addc(b, '\'');
    for (; *s; s++)
        if (*s == '\'')
            buf_adds(b, "'\\''");
        else
            buf_addc(b, *s);
    buf_addc(b, '\'');
}

char *buf_take(struct buf *b) {
    char *s;

    if (b->failed)
        return NULL;
    if (!b->data)
        return calloc(1, 1);
    s = TAKE_PTR(b->data);
    b->len = b->cap = 0;
    return s;
}
