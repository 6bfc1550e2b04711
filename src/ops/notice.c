/* SPDX-License-Identifier: Apache-2.0 */
/* Formats notices. */
#include "ops/notice.h"

#include <stdarg.h>
#include <stdio.h>

enum { NOTICE_MAX = 4096 };

void notice_say(const struct notice *n, const char *fmt, ...) {
    char text[NOTICE_MAX];
    va_list ap;

    if (!n)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    n->say(text, n->arg);
}

void notice_copy(const struct notice *n, bool held) {
    notice_say(n, "working on a copy of the workspace (--workspace sync): without user namespaces %s",
               held ? "there is no overlay; changes wait for 'bawn apply'" : "nothing can be hidden in the workspace itself");
}
