/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/finder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/secret.h"
#include "gateway/secret/finder_priv.h"

/* Two bytes, as the place of their entry in the table of shifts. */
static inline unsigned pair(const uint8_t *p) {
    return (unsigned)p[0] << 5 ^ p[1];
}

int finder_new(struct finder **ret) {
    struct finder *f = calloc(1, sizeof *f);

    if (!f)
        return -ENOMEM;
    *ret = f;
    return 0;
}

void finder_free(struct finder *f) {
    if (!f)
        return;
    if (f->bytes)
        explicit_bzero(f->bytes, f->cap);
    if (f->v)
        explicit_bzero(f->v, f->n_cap * sizeof *f->v);
    free(f->bytes);
    free(f->v);
    explicit_bzero(f, sizeof *f);
    free(f);
}

int finder_add(struct finder *f, const char *p, size_t len, uint32_t tag) {
    if (f->window)
        BUG("a pattern after finder_build()");
    if (len < FINDER_MIN)
        return 0;
    if (len > FINDER_MAX || f->n >= FINDER_PATTERNS_MAX)
        return -E2BIG;
    if (f->n == f->n_cap) {
        size_t cap = f->n_cap ? f->n_cap * 2 : 64;
        struct finder_pattern *grown = realloc(f->v, cap * sizeof *grown);

        if (!grown)
            return -ENOMEM;
        f->v = grown;
        f->n_cap = cap;
    }
    if (secret_grow(&f->bytes, f->used, &f->cap, f->used + len) < 0)
        return -ENOMEM;
    memcpy(f->bytes + f->used, p, len);
    f->v[f->n++] = (struct finder_pattern){.at = f->used, .len = (uint32_t)len, .tag = tag};
    f->used += len;
    return 0;
}

static const uint8_t *bytes_of(const struct finder *f, const struct finder_pattern *p) {
    return (const uint8_t *)f->bytes + p->at;
}

static void index_pattern(struct finder *f, size_t i) {
    struct finder_pattern *p = &f->v[i];
    const uint8_t *bytes = bytes_of(f, p);
    uint16_t *end = &f->ends[pair(bytes + f->window - 2) % FINDER_ENDS];

    memcpy(&p->start, bytes, sizeof p->start);
    for (size_t k = 0; k + 2 <= f->window; k++) {
        uint8_t *shift = &f->shift[pair(bytes + k)];

        *shift = (uint8_t)MIN_OF((size_t)*shift, f->window - 2 - k);
    }
    p->next_end = *end;
    *end = (uint16_t)(i + 1);
    p->next_first = f->firsts[bytes[0]];
    f->firsts[bytes[0]] = (uint16_t)(i + 1);
}

int finder_build(struct finder *f) {
    f->window = FINDER_WINDOW;
    for (size_t i = 0; i < f->n; i++) {
        f->window = MIN_OF(f->window, (size_t)f->v[i].len);
        f->longest = MAX_OF(f->longest, (size_t)f->v[i].len);
    }
    memset(f->shift, (int)f->window - 1, sizeof f->shift);
    for (size_t i = 0; i < f->n; i++)
        index_pattern(f, i);
    return 0;
}

/* The longest pattern that stands at p; 0: none does. */
static size_t match_at(const struct finder *f, const uint8_t *p, size_t left, uint32_t *ret_tag) {
    size_t longest = 0;
    uint32_t start;

    memcpy(&start, p, sizeof start);
    for (size_t i = f->ends[pair(p + f->window - 2) % FINDER_ENDS]; i; i = f->v[i - 1].next_end) {
        const struct finder_pattern *v = &f->v[i - 1];

        if (v->start != start || v->len > left || v->len <= longest || memcmp(p, bytes_of(f, v), v->len) != 0)
            continue;
        longest = v->len;
        *ret_tag = v->tag;
    }
    return longest;
}

/* The first match that begins at from or later. */
static bool find_from(const struct finder *f, const uint8_t *data, size_t len, size_t from, struct finder_match *ret) {
    size_t last = f->window - 2; /* the pair that is looked at, within the window */
    uint32_t tag = 0;

    if (f->n == 0 || len < f->window)
        return false;
    for (size_t at = from + last; at + 2 <= len;) {
        size_t shift = f->shift[pair(data + at)], n;

        if (shift) {
            at += shift;
            continue;
        }
        n = match_at(f, data + at - last, len - (at - last), &tag);
        if (n) {
            *ret = (struct finder_match){.at = at - last, .len = n, .tag = tag};
            return true;
        }
        at++;
    }
    return false;
}

bool finder_find(const struct finder *f, const void *data, size_t len, struct finder_match *ret) {
    return find_from(f, data, len, 0, ret);
}

void finder_stream_done(struct finder_stream *s) {
    if (s->kept)
        explicit_bzero(s->kept, s->cap);
    free(s->kept);
    *s = (struct finder_stream){0};
}

static bool may_begin(const struct finder *f, const uint8_t *p, size_t len) {
    for (size_t i = f->firsts[p[0]]; i; i = f->v[i - 1].next_first)
        if (f->v[i - 1].len > len && memcmp(p, bytes_of(f, &f->v[i - 1]), len) == 0)
            return true;
    return false;
}

/* How many of the last bytes may be the beginning of a pattern that goes on in the next piece. */
static size_t unsure(const struct finder *f, const uint8_t *data, size_t len) {
    size_t n = f->longest ? MIN_OF(len, f->longest - 1) : 0;

    while (n && !may_begin(f, data + len - n, n))
        n--;
    return n;
}

static int keep(struct finder_stream *s, const void *data, size_t len) {
    if (secret_grow(&s->kept, s->len, &s->cap, s->len + len) < 0)
        return -ENOMEM;
    if (len)
        memcpy(s->kept + s->len, data, len);
    s->len += len;
    return 0;
}

/* Only the last n bytes are wanted any more. */
static void forget_all_but(struct finder_stream *s, size_t n) {
    size_t gone = s->len - n;

    if (gone == 0)
        return;
    memmove(s->kept, s->kept + gone, n);
    explicit_bzero(s->kept + n, gone);
    s->len = n;
}

static bool find_ending_after(const struct finder *f, const uint8_t *data, size_t len, size_t after, uint32_t *ret_tag) {
    struct finder_match m = {0};

    for (size_t from = 0; find_from(f, data, len, from, &m); from = m.at + 1)
        if (m.at + m.len > after) {
            *ret_tag = m.tag;
            return true;
        }
    return false;
}

int finder_watch(const struct finder *f, struct finder_stream *s, const void *data, size_t len, uint32_t *ret_tag) {
    size_t old = s->len, joined = old ? MIN_OF(len, f->longest) : 0;
    bool found;

    if (f->n == 0)
        return 0;
    if (keep(s, data, joined) < 0)
        return -ENOMEM;
    found = old && find_ending_after(f, (const uint8_t *)s->kept, s->len, old, ret_tag);
    if (!found && (!old || joined < len))
        found = find_ending_after(f, data, len, 0, ret_tag);
    if (old && joined == len) {
        forget_all_but(s, unsure(f, (const uint8_t *)s->kept, s->len));
        return found;
    }
    forget_all_but(s, 0);
    old = unsure(f, data, len);
    return old && keep(s, (const uint8_t *)data + len - old, old) < 0 ? -ENOMEM : found;
}
