/* SPDX-License-Identifier: Apache-2.0 */
/* A judge of JSON: follows the grammar with a stack of brackets, and says yes or no. */
#include "proto/api/jsonline.h"

#include <string.h>

#include "base/buf.h"

struct jsonline {
    const char *p, *end;
    char open[JSONLINE_DEPTH_MAX]; /* '{' or '[' */
    size_t depth;
};

static void skip_space(struct jsonline *j) {
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\r'))
        j->p++;
}

static bool take_char(struct jsonline *j, char c) {
    if (j->p >= j->end || *j->p != c)
        return false;
    j->p++;
    return true;
}

/* Of RFC 3629: no surrogates, nothing longer than it must be. */
size_t jsonline_utf8_len(const char *text, size_t left) {
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;

    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
        (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

static bool take_escape(struct jsonline *j) {
    if (j->p >= j->end)
        return false;
    if (*j->p != 'u')
        return *j->p && strchr("\"\\/bfnrt", *j->p++);
    j->p++;
    for (int i = 0; i < 4; i++, j->p++)
        if (j->p >= j->end || !*j->p || !strchr("0123456789abcdefABCDEF", *j->p))
            return false;
    return true;
}

static bool take_string(struct jsonline *j) {
    if (!take_char(j, '"'))
        return false;
    while (j->p < j->end && *j->p != '"') {
        size_t n = jsonline_utf8_len(j->p, (size_t)(j->end - j->p));

        if (n == 0 || (n == 1 && (unsigned char)*j->p < 0x20))
            return false;
        if (*j->p == '\\') {
            j->p++;
            if (!take_escape(j))
                return false;
        } else
            j->p += n;
    }
    return take_char(j, '"');
}

static bool take_digits(struct jsonline *j) {
    const char *from = j->p;

    while (j->p < j->end && *j->p >= '0' && *j->p <= '9')
        j->p++;
    return j->p > from;
}

static bool take_number(struct jsonline *j) {
    take_char(j, '-');
    if (!take_char(j, '0') && !take_digits(j))
        return false;
    if (take_char(j, '.') && !take_digits(j))
        return false;
    if (!take_char(j, 'e') && !take_char(j, 'E'))
        return true;
    if (!take_char(j, '+'))
        take_char(j, '-');
    return take_digits(j);
}

static bool take_word(struct jsonline *j) {
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(j->end - j->p) >= n && memcmp(j->p, words[i], n) == 0) {
            j->p += n;
            return true;
        }
    }
    return false;
}

static bool take_scalar(struct jsonline *j) {
    return j->p < j->end && (*j->p == '"'                                     ? take_string(j)
                             : *j->p == '-' || (*j->p >= '0' && *j->p <= '9') ? take_number(j)
                                                                              : take_word(j));
}

static bool take_key(struct jsonline *j) {
    skip_space(j);
    if (!take_string(j))
        return false;
    skip_space(j);
    return take_char(j, ':');
}

/* Before a value: opens what is a bracket, and of what is empty the end follows at once. 1: a value is complete; 0: go on with the first in it. */
static int take_value(struct jsonline *j) {
    char c;

    skip_space(j);
    c = j->p < j->end ? *j->p : 0;
    if (c != '{' && c != '[')
        return take_scalar(j) ? 1 : -1;
    if (j->depth == JSONLINE_DEPTH_MAX)
        return -1;
    j->p++;
    skip_space(j);
    if (take_char(j, c == '{' ? '}' : ']'))
        return 1;
    j->open[j->depth++] = c;
    return c == '[' || take_key(j) ? 0 : -1;
}

/* After a value: what closes, or the next one. 1: all is closed. */
static int take_rest(struct jsonline *j) {
    while (j->depth > 0) {
        char c = j->open[j->depth - 1];

        skip_space(j);
        if (take_char(j, ','))
            return c == '[' || take_key(j) ? 0 : -1;
        if (!take_char(j, c == '{' ? '}' : ']'))
            return -1;
        j->depth--;
    }
    return 1;
}

bool jsonline_is_object(const char *text, size_t len) {
    struct jsonline j = {.p = text, .end = text + len};
    int r = 0;

    skip_space(&j);
    if (j.p >= j.end || *j.p != '{')
        return false;
    while (r == 0) {
        r = take_value(&j);
        r = r > 0 ? take_rest(&j) : r;
    }
    skip_space(&j);
    return r > 0 && j.p == j.end;
}

static void add_escaped(struct buf *b, unsigned char c) {
    if (c == '\n')
        buf_adds(b, "\\n");
    else if (c == '"' || c == '\\')
        buf_addf(b, "\\%c", c);
    else
        buf_addf(b, "\\u%04x", c);
}

void jsonline_add_text(struct buf *b, const char *data, size_t len) {
    buf_addc(b, '"');
    for (size_t i = 0; i < len;) {
        size_t run = i, n = 1;

        while (run < len && (unsigned char)data[run] >= 0x20 && data[run] != '"' && data[run] != '\\' && data[run] != 0x7f && n) {
            n = jsonline_utf8_len(data + run, len - run);
            run += n;
        }
        buf_add(b, data + i, run - i);
        i = run;
        if (i < len && n == 0)
            buf_adds(b, "\xef\xbf\xbd");
        else if (i < len)
            add_escaped(b, (unsigned char)data[i]);
        i++;
    }
    buf_addc(b, '"');
}
