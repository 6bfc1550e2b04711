/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that look like others to lstat(2), and hold nothing. Git takes a tracked file for unchanged if size and time are those in its
 * index, without opening it: so a hidden file that is tracked does not look deleted, and `git add -A` leaves it as it is.
 */
#pragma once

#include <time.h>

#include "base/macros.h"

struct lookalike {
    char *path; /* below the workspace */
    uint32_t size;
    struct timespec mtime;
    bool executable;
};

/* Sorted by path, as strcmp() does. */
struct lookalikes {
    struct lookalike *v;
    size_t n;
};
void lookalikes_done(struct lookalikes *p);

/* Those at or below a path. */
struct lookalike_range {
    const struct lookalike *v;
    size_t n;
};
struct lookalike_range lookalikes_below(const struct lookalikes *p, const char *path);

/* Makes each of them below dir, where its path begins after `skip` bytes, with the folders above. No link is followed; what exists
 * stays. */
int lookalikes_make(struct lookalike_range range, size_t skip, int dir);
