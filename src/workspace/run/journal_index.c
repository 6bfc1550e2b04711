/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "workspace/run/journal_priv.h"

enum { FIRST_CAP = 64 };

/* A polynomial over the bytes, modulo the prime 2^61 - 1, at a secret point: two paths collide with probability 2^-49 at
 * most, whoever chose them. */
uint64_t journal_hash(const struct journal *j, const char *path) {
    const uint64_t prime = (1ull << 61) - 1;
    uint64_t h = 0;

    for (; *path; path++) {
        __extension__ unsigned __int128 t = (unsigned __int128)h * j->key;

        h = (uint64_t)(t & prime) + (uint64_t)(t >> 61) + (unsigned char)*path;
        h = h >= prime ? h - prime : h;
    }
    return h;
}

struct journal_slot *journal_lookup(const struct journal *j, const char *path, uint64_t hash) {
    size_t mask = j->table_cap - 1;

    for (size_t i = hash & mask; j->table_cap && j->table[i]; i = (i + 1) & mask) {
        struct journal_slot *s = j->slots[j->table[i] - 1];

        if (s->hash == hash && str_eq(s->e.path, path))
            return s;
    }
    return NULL;
}

static void put(const struct journal *j, uint64_t hash, size_t index) {
    size_t mask = j->table_cap - 1, i = hash & mask;

    while (j->table[i])
        i = (i + 1) & mask;
    j->table[i] = (uint32_t)index + 1;
}

static int grow(struct journal *j) {
    size_t cap = j->cap ? j->cap * 2 : FIRST_CAP;
    struct journal_slot **slots = realloc(j->slots, cap * sizeof(struct journal_slot *));
    uint32_t *table;

    if (!slots)
        return -ENOMEM;
    j->slots = slots;
    table = calloc(cap * 2, sizeof *table);
    if (!table)
        return -ENOMEM;
    free(j->table);
    j->table = table;
    j->table_cap = cap * 2;
    j->cap = cap;
    for (size_t i = 0; i < j->n; i++)
        put(j, j->slots[i]->hash, i);
    return 0;
}

int journal_reserve(struct journal *j) {
    if (j->n >= JOURNAL_RECORDS_MAX)
        return -ENOSPC;
    return j->n < j->cap ? 0 : grow(j);
}

void journal_insert(struct journal *j, struct journal_slot *s) {
    put(j, s->hash, j->n);
    j->slots[j->n++] = s;
    if (s->e.kind != JOURNAL_FILE)
        return;
    j->last_blob = MAX_OF(j->last_blob, s->e.blob);
    if (s->e.blob)
        j->kept += s->e.size;
    else
        j->not_kept++;
}
