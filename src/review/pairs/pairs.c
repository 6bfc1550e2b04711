/* SPDX-License-Identifier: Apache-2.0 */
#include "review/pairs/pairs.h"

#include <errno.h>

#include "base/vec.h"

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
static bool has(const struct pairs *p, const size_t *index, const char *key, const char *value) {
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
        if (!has(before, old_index, pairs_key(now, i), pairs_value(now, i)))
            added(now, i, arg);
    for (size_t i = 0; r == 0 && i < before->n; i++)
        if (!has(now, new_index, pairs_key(before, i), NULL))
            removed(before, i, arg);
    free(old_index);
    free(new_index);
    return r;
}
