/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "review/risk/risk_rule.h"

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
