/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for a while before it sleeps. */
#include "os/spin.h"

#include "os/clock.h"

enum { SPIN_US = 40, REST_MAX = 255 };

bool spin_begin(struct spin *l) {
    if (l->skip) {
        l->skip--;
        return false;
    }
    l->until_us = clock_us() + SPIN_US;
    return true;
}

bool spin_more(struct spin *l, bool found) {
    if (!found && clock_us() < l->until_us)
        return true;
    l->rest = found ? 0 : MIN_OF(2 * l->rest + 1, (uint32_t)REST_MAX);
    l->skip = l->rest;
    return false;
}
