/* SPDX-License-Identifier: Apache-2.0 */
/* Content from one file to another: shared blocks where the file system has them, else copied in the kernel, else by hand. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

/* From offset 0 to the end of `from`, which may grow or shrink meanwhile: at most `max` bytes, -EFBIG past it. Returns 0 or
 * -errno; *ret_bytes (may be NULL) is how many were written. Both are regular files, `to` is empty. Holes stay holes if cheap. */
int copy_content(int from, int to, uint64_t max, uint64_t *ret_bytes);

/* One piece of at most len bytes, at the same offset of both: in the kernel or, once that was refused (*by_hand), by reading and
 * writing. Returns how many, 0 at the end of `from`, -errno. */
ssize_t copy_piece(int from, int to, off_t at, size_t len, bool *by_hand);
