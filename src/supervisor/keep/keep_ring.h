/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last output of a job in the background, for clients that attach later: whole pieces, each with the stream that it came from, the
 * oldest given up first. Grows as it is needed, up to KEEP_RING_MAX.
 */
#pragma once

#include "base/macros.h"

enum { KEEP_RING_MAX = 64 * 1024, KEEP_PIECE_MAX = 16 * 1024 };

struct keep_ring {
    char *data; /* pieces: stream, two bytes of length, bytes */
    size_t start, len, cap;
};

void keep_ring_done(struct keep_ring *r);
/* stream: 1 or 2; len: at most KEEP_PIECE_MAX. Without memory it is left out. */
void keep_ring_add(struct keep_ring *r, int stream, const void *bytes, size_t len);
/* The last `most` bytes of it, oldest first. */
typedef void keep_ring_fn(void *arg, int stream, const char *bytes, size_t len);
void keep_ring_last(const struct keep_ring *r, size_t most, keep_ring_fn *fn, void *arg);
