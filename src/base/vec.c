/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays. */
#include "base/vec.h"

void *vec_room(void *v, size_t n, size_t size) {
    if (n ? n < VEC_FIRST || (n & (n - 1)) : v != NULL)
        return v;
    return reallocarray(v, n ? 2 * n : VEC_FIRST, size);
}

void *vec_reserve(void *v, size_t n, size_t *cap, size_t first, size_t size) {
    size_t room = *cap ? 2 * *cap : first;
    void *grown = n < *cap ? v : reallocarray(v, room, size);

    if (grown && n >= *cap)
        *cap = room;
    return grown;
}

void vec_open(void *v, size_t n, size_t at, size_t size) {
    char *p = (char *)v + at * size;

    memmove(p + size, p, (n - at) * size);
}

void vec_close(void *v, size_t n, size_t at, size_t size) {
    char *p = (char *)v + at * size;

    memmove(p, p + size, (n - at - 1) * size);
}
