/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of inotify's watch descriptors. Those grow for as long as the instance lives, so a watch that is gone must leave nothing. */
#pragma once

#include "base/macros.h"

enum { WDTABLE_MAX = 1 << 20 };

struct wdtable {
    struct wd_path {
        int wd;
        char *path; /* NULL: free */
    } * v;
    size_t n, cap; /* a power of two, at least twice n */
};

void wdtable_done(struct wdtable *t);
int wdtable_set(struct wdtable *t, int wd, const char *path); /* copies; -ENOMEM, also past the ceiling */
const char *wdtable_get(const struct wdtable *t, int wd);     /* NULL: not there */
void wdtable_remove(struct wdtable *t, int wd);
