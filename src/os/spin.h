/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking for some microseconds before a wait sleeps. To fall asleep and to be woken takes longer than a peer on this machine needs for
 * its next step. Where nothing came of it, that is not done again for some waits.
 *
 *     if (spin_begin(&l)) {
 *         do
 *             n = poll(fds, n_fds, 0);
 *         while (spin_more(&l, n != 0));
 *     }
 *     if (n == 0)
 *         n = poll(fds, n_fds, ms);
 */
#pragma once

#include "base/macros.h"

struct spin {
    uint64_t until_us;
    uint32_t rest, skip; /* so many waits without it, after one that did not pay; still to come */
};

bool spin_begin(struct spin *l);            /* false: not this time */
bool spin_more(struct spin *l, bool found); /* false: something was found, or it is time to sleep */
