/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of requests in their one form. */
#include "policy/host/http_path.h"

#include <errno.h>

#include "base/err.h"
#include "policy/host/http_path_priv.h"

struct path_out {
    char *p;
    size_t len, max;
};

static int hex_value(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int http_path_encoded(const char *p, const char *end) {
    int high, low;

    if (end - p < 3 || *p != '%')
        return -1;
    high = hex_value(p[1]);
    low = hex_value(p[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool is_unreserved(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

static bool put_byte(struct path_out *o, const char *s, size_t n) {
    if (n > o->max - o->len)
        return false;
    memcpy(o->p + o->len, s, n);
    o->len += n;
    o->p[o->len] = 0;
    return true;
}

static bool put_encoded(struct path_out *o, int c) {
    static const char digits[] = "0123456789ABCDEF";
    char three[] = {'%', digits[c >> 4 & 15], digits[c & 15]};

    return put_byte(o, three, sizeof three);
}

/* Bytes that start no UTF-8 character, or a longer form than needed: "%c0%ae" is a dot to careless servers. */
static bool is_overlong(int c, int next) {
    return c == 0xc0 || c == 0xc1 || c >= 0xf5 || (c == 0xe0 && next >= 0x80 && next < 0xa0) ||
           (c == 0xf0 && next >= 0x80 && next < 0x90);
}

static int take_encoded(const char *p, const char *end, struct path_out *o, struct err *err) {
    int c = http_path_encoded(p, end);
    char plain = (char)c;

    if (c < 0)
        return err_set(err, -EINVAL, "the path has a '%%' without two hexadecimal digits");
    if (c < 0x20 || c == 0x7f)
        return err_set(err, -EINVAL, "the path has the encoded control byte %%%02X", c);
    if (c == '\\')
        return err_set(err, -EINVAL, "the path has an encoded backslash, which some servers take for a slash");
    if (is_overlong(c, http_path_encoded(p + 3, end)))
        return err_set(err, -EINVAL, "the path has encoded bytes that are not UTF-8");
    if (!(is_unreserved(c) ? put_byte(o, &plain, 1) : put_encoded(o, c)))
        return err_set(err, -EINVAL, "the path is longer than %d characters", HTTP_PATH_MAX);
    return 0;
}

/* Every character in its one form; segments are not looked at. */
static int decode(const char *p, const char *end, struct path_out *o, struct err *err) {
    while (p < end) {
        unsigned char c = (unsigned char)*p;
        int r;

        if (c == '%') {
            r = take_encoded(p, end, o, err);
            if (r < 0)
                return r;
            p += 3;
            continue;
        }
        if (c <= 0x20 || c == 0x7f)
            return err_set(err, -EINVAL, "the path has the byte 0x%02x in it", c);
        if (c >= 0x80)
            return err_set(err, -EINVAL, "the path has bytes that are not ASCII (encode them with %%)");
        if (c == '\\' || c == '#')
            return err_set(err, -EINVAL, "the path has a '%c' in it", c);
        if (!(strchr("\"<>^`{|}", c) ? put_encoded(o, c) : put_byte(o, p, 1)))
            return err_set(err, -EINVAL, "the path is longer than %d characters", HTTP_PATH_MAX);
        p++;
    }
    return 0;
}

/* "%252e": a server that decodes twice would see what was not judged. Looked for in what came out, because "%25%32e" is one too. */
static int check_double(const char *text, struct err *err) {
    for (const char *p = text; (p = strstr(p, "%25")); p += 3) {
        char again[3] = {'%', p[3], p[3] ? p[4] : 0};
        int c = http_path_encoded(again, again + sizeof again);

        if (c >= 0 && (c < 0x20 || c == '.' || c == '/' || c == '\\' || c == '%' || c == 0x7f))
            return err_set(err, -EINVAL, "the path has a character that is encoded twice");
    }
    return 0;
}

/* "." and ".." by their length; Tomcat and others take "..;x" for ".." too, so that is no file name. */
static int dots(const char *segment, size_t len, struct err *err) {
    size_t n = 0;

    while (n < len && n < 3 && segment[n] == '.')
        n++;
    if (n == 0 || n > 2 || (n < len && segment[n] != ';'))
        return 0;
    if (n < len)
        return err_set(err, -EINVAL, "the path has a dot segment with a parameter");
    return (int)n;
}

/* In place: the result is never longer. text starts with '/'. */
static int remove_segments(char *text, size_t *len, struct err *err) {
    size_t out = 0, in = 0;

    while (in < *len) {
        size_t start = in + 1, end = start;
        int r;

        while (end < *len && text[end] != '/')
            end++;
        r = dots(text + start, end - start, err);
        if (r < 0)
            return r;
        if (r == 2 && out == 0)
            return err_set(err, -EINVAL, "the path leads out of the root by '..'");
        if (r == 2)
            while (text[--out] != '/')
                ;
        if (r == 0 && (end > start || end == *len)) { /* an empty segment counts only at the end */
            text[out] = '/';
            memmove(text + out + 1, text + start, end - start);
            out += 1 + end - start;
        } else if (end == *len) { /* "/a/." is "/a/" */
            text[out++] = '/';
        }
        in = end;
    }
    text[out] = 0;
    *len = out;
    return 0;
}

/* The path as it looks to a server that decodes slashes before it splits. Dot segments would mean another thing there, so there are
 * none; p->text still has those that came. */
static int second_reading(struct http_path *p, struct err *err) {
    size_t len = 0;

    if (!strstr(p->text, "%2F"))
        return 0;
    for (size_t i = 0; i < p->len; i++) {
        bool slash = memcmp(p->text + i, "%2F", MIN_OF((size_t)3, p->len - i + 1)) == 0;

        p->other[len++] = slash ? '/' : p->text[i];
        i += slash ? 2 : 0;
    }
    p->other[len] = 0;
    for (size_t i = 0, start = 1; i <= len; i++) {
        if (i && (i == len || p->other[i] == '/')) {
            if (dots(p->other + start, i - start, err) != 0)
                return err_set(err, -EINVAL, "the path has a dot segment beside an encoded slash");
            start = i + 1;
        }
    }
    return remove_segments(p->other, &len, err);
}

int http_path_parse(const char *data, size_t len, struct http_path *ret, struct err *err) {
    const char *query = len ? memchr(data, '?', len) : NULL;
    size_t n = query ? (size_t)(query - data) : len;
    struct path_out o = {ret->text, 0, HTTP_PATH_MAX};
    int r;

    ret->text[0] = ret->other[0] = 0;
    if (len == 1 && data[0] == '*') {
        put_byte(&o, "*", 1);
    } else if (n == 0 || data[0] != '/') {
        return err_set(err, -EINVAL, "the path does not start with a slash");
    } else {
        r = decode(data, data + n, &o, err);
        if (r < 0)
            return r;
        ret->len = o.len;
        r = check_double(ret->text, err);
        if (r < 0)
            return r;
        r = second_reading(ret, err);
        if (r < 0)
            return r;
        r = remove_segments(ret->text, &o.len, err);
        if (r < 0)
            return r;
    }
    ret->len = o.len;
    ret->query = n;
    ret->changed = o.len != n || memcmp(ret->text, data, n) != 0;
    return 0;
}

int path_glob_parse(const char *data, size_t len, char out[static PATH_GLOB_MAX + 1], struct err *err) {
    struct http_path p;
    int r;

    if (len > PATH_GLOB_MAX)
        return err_set(err, -EINVAL, "the path is longer than %d characters", PATH_GLOB_MAX);
    if (len && memchr(data, '?', len))
        return err_set(err, -EINVAL, "the path has a '?' (rules look at the path only, not at the query)");
    r = http_path_parse(data, len, &p, err);
    if (r < 0)
        return r;
    if (p.len > PATH_GLOB_MAX)
        return err_set(err, -EINVAL, "the path is longer than %d characters", PATH_GLOB_MAX);
    memcpy(out, p.text, p.len + 1);
    return 0;
}

/* The last '*' and the last '**' are enough to come back to: what stood before them took as little as it could. */
bool http_path_match(const char *g, const char *end, const char *p, char any) {
    const char *star = NULL, *star_p = NULL, *all = NULL, *all_p = NULL;

    for (;;) {
        if (g < end && *g == '*') {
            bool deep = g + 1 < end && g[1] == '*';

            while (g < end && *g == '*')
                g++;
            star = deep ? NULL : g;
            star_p = p;
            all = deep ? g : all;
            all_p = deep ? p : all_p;
        } else if (*p == 0 && g == end) {
            return true;
        } else if (*p && g < end && (*g == *p || (any && *p == any && *g != '/'))) {
            g++;
            p++;
        } else if (star && *star_p && *star_p != '/') {
            g = star;
            p = ++star_p;
        } else if (all && *all_p) {
            g = all;
            p = ++all_p;
            star = NULL;
        } else {
            return false;
        }
    }
}

bool path_glob_match(const char *glob, const char *path) {
    size_t n = strlen(glob);

    if (http_path_match(glob, glob + n, path, 0))
        return true;
    return n > 3 && memcmp(glob + n - 3, "/**", 3) == 0 && http_path_match(glob, glob + n - 3, path, 0);
}
