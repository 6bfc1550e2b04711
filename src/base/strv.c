/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of strings. */
#include "base/strv.h"

#include <errno.h>
#include <stdarg.h>

#include "base/str.h"
#include "base/vec.h"

void strv_done(struct strv *s) {
    for (size_t i = 0; i < s->len; i++)
        free(s->v[i]);
    free(s->v);
    *s = (struct strv){0};
}

int strv_add_take(struct strv *s, char *item) {
    if (!item)
        return -ENOMEM;
    if (VEC_RESERVE(s->v, s->len + 1, s->cap, 8) < 0) { /* and the NULL */
        free(item);
        return -ENOMEM;
    }
    s->v[s->len++] = item;
    s->v[s->len] = NULL;
    return 0;
}

int strv_add(struct strv *s, const char *item) {
    return strv_add_take(s, strdup(item));
}

int strv_addf(struct strv *s, const char *fmt, ...) {
    char *item = NULL;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&item, fmt, ap);
    va_end(ap);
    return n < 0 ? -ENOMEM : strv_add_take(s, item);
}

int strv_add_all(struct strv *s, const struct strv *from) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < from->len; i++)
        r = strv_add(s, from->v[i]);
    return r;
}

bool strv_has(const struct strv *s, const char *item) {
    for (size_t i = 0; i < s->len; i++)
        if (str_eq(s->v[i], item))
            return true;
    return false;
}
