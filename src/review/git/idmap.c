/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with open addressing. */
#include "review/git/idmap.h"

#include <errno.h>
#include <sys/random.h>

enum { CAP_FIRST = 64 };

struct idmap_slot {
    unsigned char key[IDMAP_KEY];
    uint32_t value;
    bool used;
};

void idmap_done(struct idmap *m) {
    free(m->v);
    *m = (struct idmap){0};
}

static size_t slot_of(const struct idmap *m, const unsigned char *key) {
    uint64_t h = m->seed, part;

    for (size_t i = 0; i < IDMAP_KEY; i += sizeof part) {
        memcpy(&part, key + i, sizeof part);
        h = (h ^ part) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return (size_t)h & (m->cap - 1);
}

static struct idmap_slot *probe(const struct idmap *m, const unsigned char *key) {
    size_t i = slot_of(m, key);

    while (m->v[i].used && memcmp(m->v[i].key, key, IDMAP_KEY) != 0)
        i = (i + 1) & (m->cap - 1);
    return &m->v[i];
}

uint32_t *idmap_find(const struct idmap *m, const unsigned char key[static IDMAP_KEY]) {
    struct idmap_slot *s = m->cap ? probe(m, key) : NULL;

    return s && s->used ? &s->value : NULL;
}

static int grow_map(struct idmap *m) {
    struct idmap wider = {.n = m->n, .cap = m->cap ? 2 * m->cap : CAP_FIRST, .seed = m->seed};

    if (!m->cap && getrandom(&wider.seed, sizeof wider.seed, 0) < 0)
        wider.seed = (uint64_t)(uintptr_t)&wider;
    wider.v = calloc(wider.cap, sizeof *wider.v);
    if (!wider.v)
        return -ENOMEM;
    for (size_t i = 0; i < m->cap; i++)
        if (m->v[i].used)
            *probe(&wider, m->v[i].key) = m->v[i];
    free(m->v);
    *m = wider;
    return 0;
}

int idmap_add(struct idmap *m, const unsigned char key[static IDMAP_KEY], uint32_t value) {
    struct idmap_slot *s;

    if (m->n * 2 >= m->cap && grow_map(m) < 0)
        return -ENOMEM;
    s = probe(m, key);
    if (s->used)
        return 0;
    *s = (struct idmap_slot){.value = value, .used = true};
    memcpy(s->key, key, IDMAP_KEY);
    m->n++;
    return 1;
}
