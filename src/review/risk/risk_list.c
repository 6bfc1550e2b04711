/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "base/str.h"
#include "base/vec.h"
#include "review/risk/risk_rule.h"

static void risk_done(struct risk *r) {
    free(r->reason);
    free(r->path);
    free(r->id);
}

void risk_list_done(struct risk_list *l) {
    for (size_t i = 0; i < l->n; i++)
        risk_done(&l->v[i]);
    free(l->v);
    *l = (struct risk_list){0};
}

void risk_text_done(struct risk_text *t) {
    free(t->data);
    *t = (struct risk_text){0};
}

static bool known(const struct risk_list *l, const struct risk *r) {
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].class == r->class && l->v[i].level == r->level && str_eq(l->v[i].reason, r->reason))
            return true;
    return false;
}

int risk_append(struct risk_list *l, struct risk r) {
    if (VEC_ADD(l->v, l->n, r) == 0)
        return 0;
    risk_done(&r);
    return -ENOMEM;
}

void risk_add(struct risk_case *c, enum risk_class class, enum risk_level level, unsigned line, const char *fmt, ...) {
    struct risk r = {.class = class, .level = level, .line = line};
    va_list ap;

    /* Counted per level: a flood of small ones must not push a large one out. */
    if (c->count[class][level] >= RISK_SAME_MAX) {
        c->count[class][level]++;
        return;
    }
    va_start(ap, fmt);
    if (vasprintf(&r.reason, fmt, ap) < 0)
        r.reason = NULL;
    va_end(ap);
    if (r.reason && known(c->out, &r)) {
        free(r.reason);
        return;
    }
    if (!r.reason || risk_append(c->out, r) < 0)
        c->failed = true;
    else
        c->count[class][level]++;
}

void risk_add_rest(struct risk_case *c) {
    for (size_t i = 0; i < RISK_CLASSES; i++)
        for (size_t level = 0; level < RISK_LEVELS; level++) {
            unsigned more = c->count[i][level];

            if (more <= RISK_SAME_MAX)
                continue;
            c->count[i][level] = 0;
            risk_add(c, (enum risk_class)i, (enum risk_level)level, 0, "and %u more of this kind", more - RISK_SAME_MAX);
        }
}

/* Insertion, so that the order of the file stays among equals; the list is short (RISK_SAME_MAX). */
void risk_sort(struct risk_list *l) {
    for (size_t i = 1; i < l->n; i++) {
        struct risk r = l->v[i];
        size_t k = i;

        for (; k && l->v[k - 1].level < r.level; k--)
            l->v[k] = l->v[k - 1];
        l->v[k] = r;
    }
}

const char *risk_shown(const char *value, char out[static RISK_SHOWN_MAX + 4]) {
    size_t len = strnlen(value, RISK_SHOWN_MAX + 1);

    if (len > RISK_SHOWN_MAX) {
        for (len = RISK_SHOWN_MAX; len && ((unsigned char)value[len] & 0xc0) == 0x80; len--)
            ;
        memcpy(out + len, "...", 4);
    } else {
        out[len] = 0;
    }
    memcpy(out, value, len);
    return out;
}

/* -- lines ---------------------------------------------------------------------------------------------------------------- */

enum { LINES_MAX = 1000000 }; /* that are compared; of the old version, lines behind it count as new */

static int compare(const void *a, const void *b) {
    const struct text_line *x = a, *y = b;
    int r = memcmp(x->s, y->s, MIN_OF(x->len, y->len));

    return r ? r : (x->len > y->len) - (x->len < y->len);
}

unsigned risk_first_change(const struct risk_text *old_, const struct risk_text *new_, struct text_line *ret) {
    size_t old_pos = 0, new_pos = 0;
    struct text_line was = {0}, is = {0};

    while (text_line_next(new_->data, new_->len, &new_pos, &is)) {
        if (text_line_next(old_->data, old_->len, &old_pos, &was) && compare(&was, &is) == 0)
            continue;
        *ret = is;
        return is.number;
    }
    return 0;
}

static size_t count_lines(const struct risk_text *t) {
    size_t n = 1;

    for (size_t i = 0; i < t->len; i++)
        n += t->data[i] == '\n';
    return MIN_OF(n, (size_t)LINES_MAX);
}

int risk_new_lines(const struct risk_text *old_, const struct risk_text *new_, struct text_line **ret) {
    struct text_line *before = calloc(count_lines(old_), sizeof *before), *fresh = calloc(count_lines(new_), sizeof *fresh);
    struct text_line l = {0};
    size_t n_before = 0, n = 0, pos = 0, max = count_lines(old_), max_new = count_lines(new_);

    if (!before || !fresh) {
        free(before);
        free(fresh);
        return -ENOMEM;
    }
    while (n_before < max && text_line_next(old_->data, old_->len, &pos, &l))
        before[n_before++] = l;
    qsort(before, n_before, sizeof *before, compare);
    l = (struct text_line){0};
    for (pos = 0; n < max_new && text_line_next(new_->data, new_->len, &pos, &l);)
        if (l.len && !bsearch(&l, before, n_before, sizeof *before, compare))
            fresh[n++] = l;
    free(before);
    if (n == LINES_MAX) {
        free(fresh);
        return -E2BIG;
    }
    *ret = fresh;
    return (int)n;
}
