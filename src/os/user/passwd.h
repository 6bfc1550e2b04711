/* SPDX-License-Identifier: Apache-2.0 */
/* Users, as /etc/passwd has them. The C library's functions would load plug-ins (NSS) into a static program. */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

struct passwd_entry {
    char *line; /* the strings are in it */
    const char *name, *home;
};

/* -ENOENT: no such user there, or no such file; -ENOMEM. */
int passwd_find(uid_t uid, struct passwd_entry *ret);
void passwd_done(struct passwd_entry *e);
