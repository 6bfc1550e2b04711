/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a folder that others filled: by descriptor, following no link, whatever depth and modes it has in there. */
#pragma once

#include "base/macros.h"

/* Removes (parent, name), a folder, and all in it; a link in its place is left alone (-ELOOP or -ENOTDIR). Goes on after a
 * failure, so that as little as possible is left, and returns the first: -errno. -ENOENT: there is no such folder. Others may
 * remove the same folder at the same time. */
int remove_tree(int parent, const char *name);
