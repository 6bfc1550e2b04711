/* SPDX-License-Identifier: Apache-2.0 */
/* The formats that are lists of lines: ini and its kin, git's configuration, go.mod. */
#include "base/err.h"
#include "review/pairs/pairs.h"
#include "review/text_line.h"
#include "workspace/git/gitconfig.h"

static struct text_line trimmed(struct text_line l) {
    while (l.len && strchr(" \t\r", l.s[l.len - 1]))
        l.len--;
    while (l.len && (*l.s == ' ' || *l.s == '\t')) {
        l.s++;
        l.len--;
    }
    return l;
}

static void set_key(struct buf *key, size_t section, const struct text_line *l, size_t len) {
    if (key->data)
        key->data[key->len = section] = 0;
    if (section)
        buf_addc(key, PAIR_STEP);
    while (len && strchr(" \t", l->s[len - 1]))
        len--;
    buf_add(key, l->s, len);
}

/* In .npmrc a name may have a ':' itself: "@scope:registry=x", "//host/:_authToken=x". */
static size_t assign_at(const struct text_line *l) {
    bool npm = *l->s == '@' || *l->s == '/';
    size_t i = 0;

    while (i < l->len && l->s[i] != '=' && (npm || l->s[i] != ':'))
        i++;
    return i;
}

void pairs_read_ini(struct pairs *p, const char *data, size_t len) {
    CLEANUP(buf_done) struct buf key = BUF_INIT(PAIRS_BYTES_MAX);
    size_t pos = 0, section = 0;
    struct text_line raw = {0};

    while (text_line_next(data, len, &pos, &raw)) {
        struct text_line l = trimmed(raw), v = l;
        size_t at;

        if (l.len == 0 || *l.s == '#' || *l.s == ';')
            continue;
        at = assign_at(&l);
        if (*l.s == '[' && l.s[l.len - 1] == ']') {
            buf_clear(&key);
            buf_add(&key, l.s + 1, l.len - 2);
            section = key.len;
        } else if (key.len > section && (*raw.s == ' ' || *raw.s == '\t')) {
            pairs_add(p, buf_str(&key), key.len, l.s, l.len, l.number);
        } else {
            set_key(&key, section, &l, at);
            v.s += MIN_OF(at + 1, l.len);
            v.len -= MIN_OF(at + 1, l.len);
            v = trimmed(v);
            pairs_add(p, buf_str(&key), key.len, v.s, v.len, l.number);
        }
    }
    if (!buf_ok(&key))
        pairs_odd(p, 1);
}

static size_t word_len(const struct text_line *l) {
    size_t n = 0;

    while (n < l->len && l->s[n] != ' ' && l->s[n] != '\t')
        n++;
    return n;
}

/* "replace a => b" and "replace (\n a => b\n)" are the same: replace = a => b. */
void pairs_read_go(struct pairs *p, const char *data, size_t len) {
    char block[32] = "";
    size_t pos = 0;
    struct text_line raw = {0};

    while (text_line_next(data, len, &pos, &raw)) {
        struct text_line l = trimmed(raw);
        const char *comment = memmem(l.s, l.len, "//", 2);
        size_t n;

        if (comment && (comment == l.s || comment[-1] == ' ' || comment[-1] == '\t')) {
            l.len = (size_t)(comment - l.s);
            l = trimmed(l);
        }
        n = word_len(&l);
        if (l.len == 0)
            continue;
        if (block[0] && *l.s == ')') {
            block[0] = 0;
        } else if (block[0]) {
            pairs_add(p, block, strlen(block), l.s, l.len, l.number);
        } else if (l.len > n && l.s[l.len - 1] == '(' && n < sizeof block) {
            memcpy(block, l.s, n);
            block[n] = 0;
        } else {
            struct text_line v = {l.s + n, l.len - n, l.number};

            v = trimmed(v);
            pairs_add(p, l.s, n, v.s, v.len, l.number);
        }
    }
}

static int add_git(const char *key, const char *value, unsigned line, void *arg, struct err *err) {
    pairs_add(arg, key, strlen(key), value ? value : "true", value ? strlen(value) : 4, line);
    return 0;
}

void pairs_read_git(struct pairs *p, const char *data, size_t len) {
    struct err err = {0};

    /* A later version of git may read on where this one stops. */
    if (gitconfig_parse(data, len, add_git, p, &err) < 0)
        pairs_odd(p, p->n ? p->v[p->n - 1].line + 1 : 1);
}
