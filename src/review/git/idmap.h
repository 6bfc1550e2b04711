/* SPDX-License-Identifier: Apache-2.0 */
/* A set of object names (or other digests) with a number for each. Seeded: an agent chooses what goes in. */
#pragma once

#include "base/macros.h"

enum { IDMAP_KEY = 32 };

struct idmap {
    struct idmap_slot *v;
    size_t n, cap;
    uint64_t seed;
};

void idmap_done(struct idmap *m);
/* NULL: not in it. Valid until the next idmap_add(). */
uint32_t *idmap_find(const struct idmap *m, const unsigned char key[static IDMAP_KEY]);
/* 1: added, 0: was there (and keeps its number), -ENOMEM. */
int idmap_add(struct idmap *m, const unsigned char key[static IDMAP_KEY], uint32_t value);
