/* SPDX-License-Identifier: Apache-2.0 */
/* The files that were opened for writing inside, as the guard wrote them down (proto/guardmsg.h), so that one of two million is found at once. */
#pragma once

#include "base/macros.h"

struct guard_link;

struct landing_keys {
    uint64_t *slots; /* 0: free */
    size_t cap, n;
    uint64_t read; /* so many of the guard's are among them */
    bool lost;     /* there was no memory: every file may be one of them */
};

enum landing_touch {
    LANDING_UNTOUCHED,
    LANDING_TOUCHED,
    LANDING_TOUCHED_SAVE /* and the host had made it a moment before: it was just saving it */
};
/* fd: O_PATH will do. Whatever cannot be known counts as touched. */
enum landing_touch landing_keys_find(struct landing_keys *k, const struct guard_link *g, int fd);
void landing_keys_done(struct landing_keys *k);
