/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of requests in their one form. */
#include "policy/host/http_path.h"

#include <errno.h>

#include "base/err.h"
#include "base/hex.h"

struct path_out {
    char *p;
    size_t len, max;
};

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
    int c = hex_percent(p, (size_t)(end - p));
    char plain = (char)c;

    if (c < 0)
        return err_set(err, -EINVAL, "the path has a '%%' without two hexadecimal digits");
    if (c < 0x20 || c == 0x7f)
        return err_set(err, -EINVAL, "the path has the encoded control byte %%%02X", c);
    if (c == '\\')
        return err_set(err, -EINVAL, "the path has an encoded backslash, which some servers take for a slash");
    if (is_overlong(c, hex_percent(p + 3, (size_t)(end - p - 3))))
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
        int c = hex_percent(again, sizeof again);

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
        ret->len = o.len;
        r = r < 0 ? r : check_double(ret->text, err);
        r = r < 0 ? r : second_reading(ret, err);
        r = r < 0 ? r : remove_segments(ret->text, &o.len, err);
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
static bool match_glob(const char *g, const char *end, const char *p, char any) {
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

/* any: a byte of the path that every letter of the pattern matches; 0: there is none. */
static bool match_path(const char *glob, size_t n, const char *path, char any) {
    if (match_glob(glob, glob + n, path, any))
        return true;
    return n > 3 && memcmp(glob + n - 3, "/**", 3) == 0 && match_glob(glob, glob + n - 3, path, any);
}

bool path_glob_match(const char *glob, const char *path) {
    return match_path(glob, strlen(glob), path, 0);
}

/* -- paths as careless servers read them --------------------------------------------------------------------------- */

/* Both sides, path and pattern, are brought to one loose form; of a path there are up to four, because a parameter may be a part of
 * the name, and an encoded slash a character. */

/* Bytes that no path has: a letter that is not ASCII, and a slash that is none. */
enum { ANY_LETTER = 1, NO_SLASH = 2 };

struct loose_path_reading {
    bool cut;   /* parameters are cut off */
    bool split; /* an encoded slash separates */
};

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* The character at *p, decoded as often as it is encoded, and *p behind it. "%25%36%31" is "%61" is "a". */
static int next(const char **p, const char *end, const struct loose_path_reading *how) {
    int c = hex_percent(*p, (size_t)(end - *p));
    bool was_encoded = c >= 0;

    *p += was_encoded ? 3 : 1;
    if (!was_encoded)
        c = (unsigned char)(*p)[-1];
    while (c == '%' && end - *p >= 2) {
        const char two[] = {'%', (*p)[0], (*p)[1]};
        int again = hex_percent(two, sizeof two);

        if (again < 0)
            break;
        *p += 2;
        c = again;
        was_encoded = true;
    }
    if (c >= 0x80)
        return ANY_LETTER;
    return was_encoded && c == '/' && !how->split ? NO_SLASH : c;
}

/* One character for each that is not ASCII: the bytes that go on with it are left out. */
static bool goes_on(const char *p, const char *end) {
    int c = hex_percent(p, (size_t)(end - p));

    return c >= 0x80 && c < 0xc0;
}

/* Dots and spaces at the end of a segment, as Windows drops them. The slash itself stays. */
static size_t end_segment(const char *out, size_t len) {
    while (len && (out[len - 1] == '.' || out[len - 1] == ' '))
        len--;
    return len;
}

/* out is never longer than the path. Returns its length; there is no slash at the end. */
static size_t loosen(const char *path, size_t n, const struct loose_path_reading *how, char *out) {
    const char *p = path, *end = path + n;
    bool skip = false;
    size_t len = 0;

    while (p < end) {
        int c = next(&p, end, how);

        while (c == ANY_LETTER && goes_on(p, end))
            p += 3;
        if (c == '/') {
            skip = false;
            len = end_segment(out, len);
            if (len && out[len - 1] == '/')
                continue;
        }
        skip |= c == ';' && how->cut;
        if (!skip)
            out[len++] = lower((char)c);
    }
    len = end_segment(out, len);
    while (len > 1 && out[len - 1] == '/')
        len = end_segment(out, len - 1);
    out[len] = 0;
    return len;
}

bool path_glob_match_loose(const char *glob, const struct http_path *path) {
    char pattern[PATH_GLOB_MAX + 1], text[HTTP_PATH_MAX + 1];
    size_t n = loosen(glob, strlen(glob), &(struct loose_path_reading){.cut = false, .split = true}, pattern);

    for (unsigned i = 0; i < 4; i++) {
        const struct loose_path_reading how = {.cut = i & 1, .split = i & 2};

        loosen(path->text, path->len, &how, text);
        if (match_path(pattern, n, text, ANY_LETTER))
            return true;
    }
    return false;
}
