/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing arrays of any type: a pointer and a count, nothing else.
 *
 *     struct rule *v = NULL;
 *     size_t n = 0;
 *     if (VEC_ADD(v, n, (struct rule){.port = 80}) < 0) ...        0, or -ENOMEM and nothing has changed
 *     struct rule *one = VEC_NEW(v, n);                            a zeroed element at the end, or NULL
 *
 * There is no capacity field: room doubles whenever the count is a power of two, from VEC_FIRST on. So an array that grows by these macros
 * must get all of its memory from them; the count may shrink at any time. A ceiling is the caller's, with a message of its own.
 * `v` and `n` are evaluated more than once: name variables or members. free(v) at the end.
 */
#pragma once

#include <errno.h>
#include <string.h>

#include "base/macros.h"

enum { VEC_FIRST = 8 };

/* Where the array of n elements is once there is room for one more; NULL if memory runs out, and v is still good. */
MUST_USE void *vec_room(void *v, size_t n, size_t size);
/* For an array that is filled again and again: *cap is its room, from `first` elements on, and never shrinks. NULL as above. */
MUST_USE void *vec_reserve(void *v, size_t n, size_t *cap, size_t first, size_t size);
/* Moves the elements from `at` on by one place, up or down. */
void vec_open(void *v, size_t n, size_t at, size_t size);
void vec_close(void *v, size_t n, size_t at, size_t size);

/* sizeof of a type: clang-tidy takes `sizeof *v` for a slip where elements are pointers. */
#define VEC_SIZE(v) sizeof(__typeof__(*(v)))
#define VEC_ROOM(v, n)                                 \
    ({                                                 \
        void *room_ = vec_room((v), (n), VEC_SIZE(v)); \
        (v) = room_ ? room_ : (v);                     \
        room_ ? 0 : -ENOMEM;                           \
    })
/* The same with a capacity field. */
#define VEC_RESERVE(v, n, cap, first)                                      \
    ({                                                                     \
        void *room_ = vec_reserve((v), (n), &(cap), (first), VEC_SIZE(v)); \
        (v) = room_ ? room_ : (v);                                         \
        room_ ? 0 : -ENOMEM;                                               \
    })
#define VEC_ADD(v, n, ...)               \
    ({                                   \
        int added_ = VEC_ROOM((v), (n)); \
        if (added_ == 0) {               \
            (v)[(n)] = (__VA_ARGS__);    \
            (n)++;                       \
        }                                \
        added_;                          \
    })
#define VEC_NEW(v, n) (VEC_ROOM((v), (n)) < 0 ? NULL : (memset(&(v)[(n)], 0, VEC_SIZE(v)), &(v)[(n)++]))
#define VEC_INSERT(v, n, at, ...)                  \
    ({                                             \
        int inserted_ = VEC_ROOM((v), (n));        \
        if (inserted_ == 0) {                      \
            vec_open((v), (n), (at), VEC_SIZE(v)); \
            (v)[(at)] = (__VA_ARGS__);             \
            (n)++;                                 \
        }                                          \
        inserted_;                                 \
    })
/* Free what the element owns first. */
#define VEC_REMOVE(v, n, at) vec_close((v), (n)--, (at), VEC_SIZE(v))
