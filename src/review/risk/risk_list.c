/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "base/str.h"
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

static int append(struct risk_list *l, struct risk r) {
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 8;
        struct risk *grown = reallocarray(l->v, cap, sizeof *grown);

        if (!grown)
            return -ENOMEM;
        l->v = grown;
        l->cap = cap;
    }
    l->v[l->n++] = r;
    return 0;
}

int risk_append(struct risk_list *l, struct risk r) {
    if (append(l, r) == 0)
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
    if (!r.reason || append(c->out, r) < 0) {
        c->failed = true;
        free(r.reason);
        return;
    }
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
