/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of keys and values, and their differences. */
#include "review/pairs/pairs.h"

#include <errno.h>

#include "base/err.h"
#include "base/vec.h"
#include "review/text_line.h"
#include "workspace/git/gitconfig.h"

void pairs_done(struct pairs *p) {
    free(p->v);
    buf_done(&p->text);
    *p = (struct pairs)PAIRS_INIT;
}

const char *pairs_key(const struct pairs *p, size_t i) {
    return p->text.data + p->v[i].key;
}

const char *pairs_value(const struct pairs *p, size_t i) {
    return p->text.data + p->v[i].value;
}

void pairs_odd(struct pairs *p, unsigned line) {
    if (p->odd == 0)
        p->odd = MAX_OF(line, 1u);
}

/* A NUL in a name or value would end it for us, but not for the program that reads the file. */
static size_t add_string(struct pairs *p, const char *s, size_t len, unsigned line) {
    size_t at = p->text.len;

    if (len && memchr(s, 0, len))
        pairs_odd(p, line);
    buf_add(&p->text, s, len);
    buf_addc(&p->text, 0);
    return at;
}

void pairs_add(struct pairs *p, const char *key, size_t key_len, const char *value, size_t value_len, unsigned line) {
    struct pair pair = {.line = line};

    if (key_len > PAIRS_KEY_MAX) {
        pairs_odd(p, line);
        key_len = PAIRS_KEY_MAX;
    }
    if (p->n >= PAIRS_MAX) {
        pairs_odd(p, line);
        return;
    }
    pair.key = add_string(p, key, key_len, line);
    pair.value = add_string(p, value, value_len, line);
    if (!buf_ok(&p->text) || VEC_ADD(p->v, p->n, pair) < 0)
        pairs_odd(p, line);
}

static int by_key(const void *a, const void *b, void *arg) {
    const struct pairs *p = arg;

    return strcmp(pairs_key(p, *(const size_t *)a), pairs_key(p, *(const size_t *)b));
}

static int by_pair(const void *a, const void *b, void *arg) {
    const struct pairs *p = arg;
    int r = by_key(a, b, arg);

    return r ? r : strcmp(pairs_value(p, *(const size_t *)a), pairs_value(p, *(const size_t *)b));
}

/* The list's own order stays as it is in the file. */
static size_t *sorted(const struct pairs *p, int (*order)(const void *, const void *, void *)) {
    size_t *index = calloc(p->n + 1, sizeof *index);

    if (!index)
        return NULL;
    for (size_t i = 0; i < p->n; i++)
        index[i] = i;
    qsort_r(index, p->n, sizeof *index, order, (void *)p);
    return index;
}

/* value NULL: the key alone. */
static bool has_pair(const struct pairs *p, const size_t *index, const char *key, const char *value) {
    size_t lo = 0, hi = p->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int r = strcmp(key, pairs_key(p, index[mid]));

        if (r == 0 && value)
            r = strcmp(value, pairs_value(p, index[mid]));
        if (r == 0)
            return true;
        if (r < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return false;
}

int pairs_compare(const struct pairs *before, const struct pairs *now, pairs_each_fn *added, pairs_each_fn *removed, void *arg) {
    size_t *old_index = sorted(before, by_pair), *new_index = sorted(now, by_key);
    int r = old_index && new_index ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < now->n; i++)
        if (!has_pair(before, old_index, pairs_key(now, i), pairs_value(now, i)))
            added(now, i, arg);
    for (size_t i = 0; r == 0 && i < before->n; i++)
        if (!has_pair(now, new_index, pairs_key(before, i), NULL))
            removed(before, i, arg);
    free(old_index);
    free(new_index);
    return r;
}

/* -- ini, git, go.mod ----------------------------------------------------------------------------------------------------- */

/* The formats that are lists of lines: ini and its kin, git's configuration, go.mod. */

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
