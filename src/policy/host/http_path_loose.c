/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths as careless servers read them. Both sides, path and pattern, are brought to one loose form; of a path there are up to four,
 * because a parameter may be a part of the name, and an encoded slash a character.
 */
#include "policy/host/http_path.h"
#include "policy/host/http_path_priv.h"

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
    int c = http_path_encoded(*p, end);
    bool was_encoded = c >= 0;

    *p += was_encoded ? 3 : 1;
    if (!was_encoded)
        c = (unsigned char)(*p)[-1];
    while (c == '%' && end - *p >= 2) {
        const char two[] = {'%', (*p)[0], (*p)[1]};
        int again = http_path_encoded(two, two + sizeof two);

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
    int c = http_path_encoded(p, end);

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

/* As in path_glob_match(), '**' for what ends in it. */
static bool match_reading(const char *glob, size_t n, const char *path) {
    static const char deep[] = "/**";
    size_t tail = sizeof deep - 1;

    if (http_path_match(glob, glob + n, path, ANY_LETTER))
        return true;
    return n > tail && memcmp(glob + n - tail, deep, tail) == 0 && http_path_match(glob, glob + n - tail, path, ANY_LETTER);
}

bool path_glob_match_loose(const char *glob, const struct http_path *path) {
    char pattern[PATH_GLOB_MAX + 1], text[HTTP_PATH_MAX + 1];
    size_t n = loosen(glob, strlen(glob), &(struct loose_path_reading){.cut = false, .split = true}, pattern);

    for (unsigned i = 0; i < 4; i++) {
        const struct loose_path_reading how = {.cut = i & 1, .split = i & 2};

        loosen(path->text, path->len, &how, text);
        if (match_reading(pattern, n, text))
            return true;
    }
    return false;
}
