/* SPDX-License-Identifier: Apache-2.0 */
/* How long refusals that repeat have to wait. */
#include "gateway/flow/pacer.h"

#include <errno.h>

#include "gateway/net/names.h"

struct pacer_place {
    uint32_t hash; /* of host and port; 0: free */
    uint32_t count;
    uint64_t last_ms;
};

struct pacer {
    struct pacer_place v[PACER_PLACES];
    size_t waiting;
};

int pacer_new(struct pacer **ret) {
    struct pacer *p = calloc(1, sizeof *p);

    if (!p)
        return -ENOMEM;
    *ret = p;
    return 0;
}

void pacer_free(struct pacer *p) {
    free(p);
}

static uint64_t delay_of(uint32_t count) {
    uint32_t past = count > PACER_FREE ? count - PACER_FREE : 0;

    if (!past)
        return 0;
    return past > 16 ? PACER_MOST_MS : MIN_OF((uint64_t)PACER_FIRST_MS << (past - 1), (uint64_t)PACER_MOST_MS);
}

uint64_t pacer_wait(struct pacer *p, uint64_t now_ms, const char *host, uint16_t port) {
    uint32_t hash = (names_hash(host, strlen(host)) ^ port) * 16777619u | 1;
    struct pacer_place *at;
    uint64_t ms;

    if (!p)
        return 0;
    at = &p->v[hash / 2 % PACER_PLACES];
    if (at->hash != hash || now_ms - at->last_ms > PACER_CALM_MS)
        *at = (struct pacer_place){.hash = hash};
    at->last_ms = now_ms;
    at->count += at->count < UINT32_MAX;
    ms = p->waiting < PACER_WAITING ? delay_of(at->count) : 0;
    p->waiting += ms > 0;
    return ms;
}

void pacer_over(struct pacer *p) {
    p->waiting--;
}

void pacer_forget(struct pacer *p) {
    for (size_t i = 0; p && i < PACER_PLACES; i++)
        p->v[i] = (struct pacer_place){0};
}
