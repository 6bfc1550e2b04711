/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what one program could read in another way than the next. A second reader on purpose, line by line: gitconfig.c follows git's own steps. */
#include "workspace/git/gitconfig_plain.h"

#include "base/str.h"

enum { LINE_MAX_LEN = 8192 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_char(char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '-';
}

static const char *skip_blanks(const char *s) {
    while (is_blank(*s))
        s++;
    return s;
}

/* The end of the line, or a comment to its end. */
static bool is_rest(const char *s) {
    s = skip_blanks(s);
    return *s == 0 || *s == '#' || *s == ';';
}

/* Behind the '['. */
static bool is_section(const char *s) {
    const char *start = s;

    while (is_name_char(*s))
        s++;
    if (s == start)
        return false;
    if (s[0] == ']')
        return is_rest(s + 1);
    if (s[0] != ' ' || s[1] != '"')
        return false;
    for (s += 2; *s != '"'; s++)
        if (*s == 0 || (*s == '\\' && *++s != '"' && *s != '\\'))
            return false;
    return s[1] == ']' && is_rest(s + 2);
}

/* Behind the '='. */
static bool is_value(const char *s) {
    bool quote = false, blank = true;

    for (s = skip_blanks(s); *s; s++) {
        if (!quote && (*s == '#' || *s == ';'))
            return blank;
        if (*s == '\\') {
            s++;
            if (*s == 0 || !strchr("tn\\\"", *s))
                return false;
            blank = false;
            continue;
        }
        if (*s == '"')
            quote = !quote;
        if (*s == '\t' && !quote && !is_rest(s))
            return false;
        blank = is_blank(*s) && !quote;
    }
    return !quote;
}

static bool is_plain_line(const char *s) {
    s = skip_blanks(s);
    if (is_rest(s))
        return true;
    if (*s == '[')
        return is_section(s + 1);
    if (!is_letter(*s))
        return false;
    while (is_name_char(*s))
        s++;
    s = skip_blanks(s);
    return *s == 0 || (*s == '=' && is_value(s + 1));
}

static bool has_plain_bytes(const char *s) {
    size_t n;

    for (; *s; s += n) {
        n = str_utf8_len(s);
        if (n == 0 || (n == 1 && *s != '\t' && ((unsigned char)*s < ' ' || *s == 0x7f)))
            return false;
        if (n == 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) /* a byte-order mark, wherever it is */
            return false;
    }
    return true;
}

unsigned gitconfig_not_plain(const char *data, size_t len) {
    unsigned line = 1;
    char text[LINE_MAX_LEN];

    for (size_t at = 0; at < len; line++) {
        const char *end = memchr(data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - data) - at : len - at;

        if (n >= sizeof text || memchr(data + at, 0, n))
            return line;
        memcpy(text, data + at, n);
        text[n] = 0;
        if (!has_plain_bytes(text) || !is_plain_line(text))
            return line;
        at += n + 1;
    }
    return 0;
}
