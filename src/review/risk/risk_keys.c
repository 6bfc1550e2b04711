/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files by tables of keys: what is new in them, and what is gone. */
#include "base/str.h"
#include "review/risk/risk_rule.h"

enum {
    KEYS_MAX = 20000,  /* new ones in one file; people write fewer, and each is compared with every row */
    VALUE_MAX = 16384, /* bytes of a value that are compared */
};

struct comparison {
    struct risk_case *c;
    size_t added, removed;
};

static const struct risk_key *find_in(const struct risk_key *keys, const char *key, const char *value) {
    size_t len = strlen(key), value_len = strnlen(value, VALUE_MAX);

    for (const struct risk_key *k = keys; k && k->key; k++)
        if (risk_glob(k->key, key, len) && (!k->value || risk_glob(k->value, value, value_len)))
            return k;
    return NULL;
}

static const struct risk_key *find(const struct risk_format *f, const char *key, const char *value) {
    const struct risk_key *k = find_in(f->keys, key, value);

    return k ? k : find_in(f->more, key, value);
}

/* As people write it. */
static const char *shown_key(const char *key, char out[static RISK_SHOWN_MAX + 4]) {
    risk_shown(key, out);
    for (char *s = out; *s; s++)
        if (*s == PAIR_STEP)
            *s = '.';
    return out;
}

/* "KEY[] = {" only says where an element begins. */
static bool marker(const struct pairs *p, size_t i) {
    return str_eq(pairs_value(p, i), "{") && str_ends(pairs_key(p, i), "[]");
}

static void added(const struct pairs *p, size_t i, void *arg) {
    struct comparison *cmp = arg;
    struct risk_case *c = cmp->c;
    const struct risk_format *f = c->rule->format;
    char key[RISK_SHOWN_MAX + 4], value[RISK_SHOWN_MAX + 4];
    const struct risk_key *k;
    enum risk_level level;

    if (marker(p, i) || ++cmp->added > KEYS_MAX)
        return;
    k = find(f, pairs_key(p, i), pairs_value(p, i));
    level = k ? k->level : f->rest;
    if (level != RISK_NONE)
        risk_add(c, k ? k->class : c->rule->class, level, p->v[i].line, "%s is '%s', %s", shown_key(pairs_key(p, i), key),
                 risk_shown(pairs_value(p, i), value), k ? k->reason : f->rest_reason);
}

static void removed(const struct pairs *p, size_t i, void *arg) {
    struct comparison *cmp = arg;
    char key[RISK_SHOWN_MAX + 4], value[RISK_SHOWN_MAX + 4];
    const struct risk_key *k;

    if (marker(p, i) || ++cmp->removed > KEYS_MAX)
        return;
    k = find(cmp->c->rule->format, pairs_key(p, i), pairs_value(p, i));
    if (k && k->level != RISK_NONE)
        risk_add(cmp->c, k->class, RISK_LOW, 0, "%s was '%s' and is gone", shown_key(pairs_key(p, i), key),
                 risk_shown(pairs_value(p, i), value));
}

void risk_inspect_keys(struct risk_case *c) {
    CLEANUP(pairs_done) struct pairs before = PAIRS_INIT, now = PAIRS_INIT;
    struct comparison cmp = {c, 0, 0};

    c->rule->format->read(&before, c->old_.data, c->old_.len);
    c->rule->format->read(&now, c->new_.data, c->new_.len);
    if (pairs_compare(&before, &now, added, removed, &cmp) < 0)
        c->failed = true;
    if (cmp.added > KEYS_MAX || cmp.removed > KEYS_MAX)
        risk_unread(c, 0, "it has too many keys");
    if (now.odd)
        risk_unread(c, now.odd, "it is written in a way that this reader does not know");
    if (c->old_.there && !c->old_.whole)
        risk_add(c, c->rule->class, RISK_LOW, 0, "%s, and its old version was not stored: everything in it counts as new",
                 c->rule->reason);
}
