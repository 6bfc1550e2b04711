/* SPDX-License-Identifier: Apache-2.0 */
/* Opening below a folder that others fill: no link is followed, nothing outside is reached, whatever is swapped meanwhile. */
#pragma once

#include "base/macros.h"

/* path is relative, without "..". Uses openat2(2); before Linux 5.6 walks component by component. Returns a close-on-exec
 * descriptor or -errno: -ELOOP for a link on the way (with O_PATH, the last component may be a link itself). */
int safepath_open(int dirfd, const char *path, int flags);
