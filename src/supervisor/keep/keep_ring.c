/* SPDX-License-Identifier: Apache-2.0 */
/* The last output of a job: a ring of whole pieces. */
#include "supervisor/keep/keep_ring.h"

enum { HEAD = 3, FIRST_CAP = 4096 };

void keep_ring_done(struct keep_ring *r) {
    free(r->data);
    *r = (struct keep_ring){0};
}

static size_t piece_len(const char *head) {
    return (size_t)(unsigned char)head[1] | (size_t)(unsigned char)head[2] << 8;
}

/* Room for n bytes behind what is there: the oldest go, then all moves to the front, then it grows. */
static bool make_ring_room(struct keep_ring *r, size_t n) {
    size_t cap = r->cap ? r->cap : FIRST_CAP;
    char *grown;

    while (r->len + n > KEEP_RING_MAX) {
        size_t oldest = HEAD + piece_len(r->data + r->start);

        r->start += oldest;
        r->len -= oldest;
    }
    if (r->start && r->start + r->len + n > r->cap) {
        memmove(r->data, r->data + r->start, r->len);
        r->start = 0;
    }
    while (cap < r->len + n)
        cap *= 2;
    if (cap == r->cap)
        return true;
    grown = realloc(r->data, cap);
    if (!grown)
        return false;
    r->data = grown;
    r->cap = cap;
    return true;
}

void keep_ring_add(struct keep_ring *r, int stream, const void *bytes, size_t len) {
    char head[HEAD] = {(char)stream, (char)(len & 0xff), (char)(len >> 8)};

    if (len > KEEP_PIECE_MAX)
        BUG("a piece of output is too long");
    if (len == 0 || !make_ring_room(r, HEAD + len))
        return;
    memcpy(r->data + r->start + r->len, head, HEAD);
    memcpy(r->data + r->start + r->len + HEAD, bytes, len);
    r->len += HEAD + len;
}

static size_t all_bytes(const struct keep_ring *r) {
    size_t sum = 0;

    for (size_t at = 0, n; at < r->len; at += HEAD + n) {
        n = piece_len(r->data + r->start + at);
        sum += n;
    }
    return sum;
}

void keep_ring_last(const struct keep_ring *r, size_t most, keep_ring_fn *fn, void *arg) {
    size_t all = all_bytes(r), skip = all > most ? all - most : 0;

    for (size_t at = 0, n; at < r->len; at += HEAD + n) {
        const char *piece = r->data + r->start + at;
        size_t cut;

        n = piece_len(piece);
        cut = MIN_OF(skip, n);
        skip -= cut;
        if (n > cut)
            fn(arg, piece[0], piece + HEAD + cut, n - cut);
    }
}
