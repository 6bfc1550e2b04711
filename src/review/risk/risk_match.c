/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of rules against paths and keys. */
#include <ctype.h>

#include "review/risk/risk_rule.h"

static bool same_byte(char p, char t) {
    return tolower((unsigned char)p) == tolower((unsigned char)t) || (p == '.' && t == PAIR_STEP);
}

/* One alternative; '*' is any bytes. Goes back to the last star only, which is enough: O(pattern * text). */
static bool glob_one(const char *p, size_t n, const char *t, size_t len) {
    size_t i = 0, k = 0, star = SIZE_MAX, from = 0;

    while (k < len) {
        if (i < n && p[i] == '*') {
            star = i++;
            from = k;
        } else if (i < n && same_byte(p[i], t[k])) {
            i++;
            k++;
        } else if (star != SIZE_MAX) {
            i = star + 1;
            k = ++from;
        } else {
            return false;
        }
    }
    while (i < n && p[i] == '*')
        i++;
    return i == n;
}

bool risk_glob(const char *patterns, const char *text, size_t len) {
    for (;;) {
        size_t n = strcspn(patterns, "|");

        if (glob_one(patterns, n, text, len))
            return true;
        if (patterns[n] == 0)
            return false;
        patterns += n + 1;
    }
}

void risk_path_split(const char *path, struct risk_path *ret) {
    size_t depth = 1;

    for (const char *s = path; *s; s++)
        depth += *s == '/';
    ret->n = 0;
    for (; depth; depth--) {
        size_t len = strcspn(path, "/");

        if (depth <= CHANGE_DEPTH_MAX) {
            ret->part[ret->n] = path;
            ret->len[ret->n++] = len;
        }
        path += len + (path[len] == '/');
    }
}

enum { PATTERN_PARTS_MAX = 8 };

struct risk_match_pattern {
    const char *part[PATTERN_PARTS_MAX];
    size_t len[PATTERN_PARTS_MAX];
    size_t n;
};

static struct risk_match_pattern split_pattern(const char *s, size_t len) {
    struct risk_match_pattern p = {0};

    for (size_t i = 0; i < len; p.n++) {
        size_t n = 0;

        if (p.n == PATTERN_PARTS_MAX)
            BUG("a pattern of a rule has too many parts");
        while (i + n < len && s[i + n] != '/')
            n++;
        p.part[p.n] = s + i;
        p.len[p.n] = n;
        i += n + 1;
    }
    return p;
}

static bool deep(const struct risk_match_pattern *p, size_t i) {
    return p->len[i] == 2 && memcmp(p->part[i], "**", 2) == 0;
}

/* The first n parts of the pattern against the end of the path, as if "**" came first. Backtracks like glob_one(). */
static bool parts_match(const struct risk_match_pattern *p, size_t n, const struct risk_path *path) {
    size_t i = 0, k = 0, star = SIZE_MAX, from = 0;

    while (k < path->n) {
        if (i < n && deep(p, i)) {
            star = i++;
            from = k;
        } else if (i < n && glob_one(p->part[i], p->len[i], path->part[k], path->len[k])) {
            i++;
            k++;
        } else {
            i = star == SIZE_MAX ? 0 : star + 1;
            k = ++from;
        }
    }
    while (i < n && deep(p, i))
        i++;
    return i == n;
}

bool risk_path_match(const char *patterns, const struct risk_path *path) {
    const char *name = path->part[path->n - 1];
    size_t name_len = path->len[path->n - 1];

    for (;;) {
        size_t n = strcspn(patterns, "|");

        if (!memchr(patterns, '/', n)) {
            if (glob_one(patterns, n, name, name_len))
                return true;
        } else {
            struct risk_match_pattern p = split_pattern(patterns, n);

            if (parts_match(&p, p.n, path))
                return true;
        }
        if (patterns[n] == 0)
            return false;
        patterns += n + 1;
    }
}

bool risk_path_leads(const char *patterns, const struct risk_path *path) {
    for (;;) {
        size_t n = strcspn(patterns, "|");
        struct risk_match_pattern p = split_pattern(patterns, n);

        for (size_t i = 1; i < p.n; i++)
            if (!deep(&p, i - 1) && parts_match(&p, i, path))
                return true;
        if (patterns[n] == 0)
            return false;
        patterns += n + 1;
    }
}
