/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two things are the same. */
#pragma once

#include "base/macros.h"

/* The content of two open files, whatever their positions: 1 or 0, or -errno. Either may change meanwhile. Not regular files, and files
 * of more than max bytes, count as different. */
int same_content(int a, int b, uint64_t max);
/* The user.* attributes of two open files: 1 or 0, or -errno. */
int same_xattrs(int a, int b);
