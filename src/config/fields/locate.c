/* SPDX-License-Identifier: Apache-2.0 */
#include "config/fields/locate.h"

#include <ctype.h>

struct locate_scan {
    const char *p, *end;
};

static void skip_space(struct locate_scan *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool accept(struct locate_scan *s, char c) {
    skip_space(s);
    if (s->p >= s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool skip_string(struct locate_scan *s) {
    if (!accept(s, '"'))
        return false;
    for (; s->p < s->end; s->p++) {
        if (*s->p == '"') {
            s->p++;
            return true;
        }
        if (*s->p == '\\')
            s->p++;
    }
    return false;
}

/* A scalar ends where structure goes on; brackets are counted, so no recursion is needed. */
static bool skip_value(struct locate_scan *s) {
    size_t depth = 0;

    skip_space(s);
    while (s->p < s->end) {
        if (*s->p == '"') {
            if (!skip_string(s))
                return false;
        } else if (*s->p == '{' || *s->p == '[') {
            depth++;
            s->p++;
        } else if (*s->p == '}' || *s->p == ']') {
            if (depth == 0)
                return true;
            depth--;
            s->p++;
        } else if (depth == 0 && *s->p == ',') {
            return true;
        } else {
            s->p++;
            continue;
        }
        if (depth == 0)
            return true;
    }
    return depth == 0;
}

static bool hex4(const char *p, const char *end, unsigned *ret) {
    unsigned v = 0;

    if (end - p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)p[i]))
            return false;
        v = v * 16 + (unsigned)(isdigit((unsigned char)p[i]) ? p[i] - '0' : (p[i] | 0x20) - 'a' + 10);
    }
    *ret = v;
    return true;
}

static size_t utf8_put(unsigned c, char out[static 4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* Decodes the escape after a backslash; returns how many bytes of text it took, 0 if it is none. */
static size_t unescape(const char *p, const char *end, char out[static 4], size_t *ret_len) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = p < end && *p ? strchr(from, *p) : NULL;
    unsigned high, low;

    if (found) {
        out[0] = to[found - from];
        *ret_len = 1;
        return 1;
    }
    if (p >= end || *p != 'u' || !hex4(p + 1, end, &high))
        return 0;
    if (high >= 0xd800 && high < 0xdc00 && end - p >= 11 && p[5] == '\\' && p[6] == 'u' && hex4(p + 7, end, &low)) {
        *ret_len = utf8_put(0x10000 + ((high & 0x3ff) << 10 | (low & 0x3ff)), out);
        return 11;
    }
    *ret_len = utf8_put(high, out);
    return 5;
}

/* Is the raw string between the quotes, escapes and all, this key? */
static bool raw_equals(const char *p, const char *end, const char *key) {
    while (p < end) {
        char one[4] = {*p};
        size_t len = 1, took = 1;

        if (*p == '\\') {
            took = unescape(p + 1, end, one, &len);
            if (took == 0)
                return false;
            took++;
        }
        if (strnlen(key, len) < len || memcmp(key, one, len) != 0)
            return false;
        key += len;
        p += took;
    }
    return *key == 0;
}

static bool enter_member(struct locate_scan *s, const char *key, const char **ret_key) {
    if (!accept(s, '{'))
        return false;
    do {
        const char *start;
        bool same;

        skip_space(s);
        start = s->p;
        if (!skip_string(s))
            return false;
        same = raw_equals(start + 1, s->p - 1, key);
        if (!accept(s, ':'))
            return false;
        if (same) {
            *ret_key = start;
            return true;
        }
        if (!skip_value(s))
            return false;
    } while (accept(s, ','));
    return false;
}

static bool enter_element(struct locate_scan *s, size_t index) {
    if (!accept(s, '['))
        return false;
    for (; index; index--)
        if (!skip_value(s) || !accept(s, ','))
            return false;
    return true;
}

bool locate(const char *text, size_t len, const struct locate_step *path, size_t n, enum locate_what what, struct position *ret) {
    struct locate_scan s = {text, text + len};
    const char *key = NULL;

    for (size_t i = 0; i < n; i++) {
        key = NULL;
        if (path[i].key ? !enter_member(&s, path[i].key, &key) : !enter_element(&s, path[i].index))
            return false;
    }
    skip_space(&s);
    *ret = locate_offset(text, (size_t)((what == LOCATE_KEY && key ? key : s.p) - text));
    return true;
}

struct position locate_offset(const char *text, size_t offset) {
    struct position at = {1, 1};

    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n')
            at = (struct position){at.line + 1, 1};
        else if (((unsigned char)text[i] & 0xc0) != 0x80) /* not the middle of a UTF-8 character */
            at.column++;
    }
    return at;
}
