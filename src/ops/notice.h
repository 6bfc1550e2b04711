/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation says to the user while it works. What is known at its end is in its result instead. */
#pragma once

#include "base/macros.h"

struct notice {
    void (*say)(const char *text, void *arg); /* one line, without its end */
    void *arg;
};

/* n: NULL if the caller wants no notices. */
void notice_say(const struct notice *n, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Without mounts: overlay mode (held), or direct mode with something hidden. */
void notice_copy(const struct notice *n, bool held);
