/* SPDX-License-Identifier: Apache-2.0 */
/* Which files the inside had open for writing, as the guard wrote them down. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "proto/guardmsg.h"
#include "supervisor/watch/guard_link.h"

enum { KEYS_START = 1024 };

static const uint64_t SECOND_NS = 1000000000;

static uint64_t *find_slot(uint64_t *slots, size_t cap, uint64_t key) {
    size_t i = (key >> 1) & (cap - 1);

    while (slots[i] && (slots[i] & ~GUARD_KEY_HOSTS) != (key & ~GUARD_KEY_HOSTS))
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

static bool grow_keys(struct landing_keys *k) {
    size_t cap = k->cap ? 2 * k->cap : KEYS_START;
    uint64_t *slots = calloc(cap, sizeof *slots);

    if (!slots)
        return false;
    for (size_t i = 0; i < k->cap; i++)
        if (k->slots[i])
            *find_slot(slots, cap, k->slots[i]) = k->slots[i];
    free(k->slots);
    k->slots = slots;
    k->cap = cap;
    return true;
}

/* What the guard wrote down since the last time; it says each file once, but may have been taken over. */
static void read_new(struct landing_keys *k, const struct guard_link *g) {
    uint64_t room = (g->share_size - offsetof(struct guard_share, written)) / sizeof g->share->written[0];
    uint64_t n = MIN_OF(g->share->n_written, room);

    for (; k->read < n && !k->lost; k->read++) {
        uint64_t key = g->share->written[k->read], *slot;

        if (k->n >= k->cap / 2 && !grow_keys(k)) {
            k->lost = true;
            return;
        }
        slot = find_slot(k->slots, k->cap, key);
        k->n += *slot == 0 && key != 0;
        *slot |= key;
    }
}

enum landing_touch landing_keys_find(struct landing_keys *k, const struct guard_link *g, int fd) {
    struct statx x;
    uint64_t birth_ns, found;

    if (!g->share)
        return LANDING_UNTOUCHED;
    read_new(k, g);
    if (k->lost || g->share->full || statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &x) < 0)
        return LANDING_TOUCHED;
    if (k->cap == 0)
        return LANDING_UNTOUCHED;
    birth_ns = x.stx_mask & STATX_BTIME ? (uint64_t)x.stx_btime.tv_sec * SECOND_NS + x.stx_btime.tv_nsec : 0;
    found = *find_slot(k->slots, k->cap, guardmsg_key(makedev(x.stx_dev_major, x.stx_dev_minor), x.stx_ino, birth_ns));
    return !found ? LANDING_UNTOUCHED : found & GUARD_KEY_HOSTS ? LANDING_TOUCHED_SAVE : LANDING_TOUCHED;
}

void landing_keys_done(struct landing_keys *k) {
    free(k->slots);
    *k = (struct landing_keys){0};
}
