/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of ids that the administrator gave to a user: /etc/subuid and /etc/subgid, lines of "user:first:count". Read strictly, because what is
 * found here is mapped into sandboxes: a damaged line of the user's own, or a range with ids of the host itself, is an error and no range.
 */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

/* A sandbox has ids 0 to 65535; the first of them is the user. Fewer than these are not worth a map: packages make users up to 999. */
enum { SUBID_MOST = 65535, SUBID_LEAST = 999 };

struct id_range {
    uint32_t first, n; /* n 0: there is none */
};

/* The largest range of the user in this text, cut to SUBID_MOST ids. name may be NULL. -ENOENT: there is none, or none that is large enough;
 * -EINVAL: a line of the user's that is not understood. */
int subid_find(const char *text, const char *name, uid_t uid, struct id_range *ret);

/* The same of a file; -errno of reading it. */
int subid_read(const char *path, const char *name, uid_t uid, struct id_range *ret);
