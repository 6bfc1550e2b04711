/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secret bytes: a value of the user's, a key, a passphrase. On pages of their own, locked in memory where the limit
 * allows it, left out of core dumps, zeroed when they go. Never printed, never in a struct buf, never in a log, an error or an argv.
 */
#pragma once

#include "base/macros.h"

struct secret {
    char *p; /* cap bytes; NULL: none */
    size_t len, cap;
};

int secret_alloc(struct secret *s, size_t cap); /* -ENOMEM; s was empty */
void secret_done(struct secret *s);             /* zeroes */
void secret_clear(struct secret *s);            /* zeroes, keeps the pages */
void secret_drop(struct secret *s);             /* the same for the first len bytes: all that was ever used since it was empty */
int secret_set(struct secret *s, const void *p, size_t len); /* -ENOSPC */

/* For bytes that may hold a value on their way, in ordinary memory: makes room for `need` bytes at *p, of which `used` are in use. As
 * realloc(), which would leave a copy of the old bytes behind. -ENOMEM */
int secret_grow(char **p, size_t used, size_t *cap, size_t need);

/* For allocators of libraries through whose memory values pass: zeroed as a whole when it is given back. */
void secret_zero_free(void *p);
void *secret_zero_realloc(void *p, size_t size);
