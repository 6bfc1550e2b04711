/* SPDX-License-Identifier: Apache-2.0 */
/* Is it the same? Private to apply. */
#pragma once

#include "base/macros.h"

/* The user.* attributes of the file are those of the block (xattrs.h). */
bool apply_same_xattrs(int fd, const char *block, size_t len);
/* At the path is a link with exactly this target. */
bool apply_same_link(int root, const char *path, const char *target);
/* No NUL in its first bytes, and not larger than what is merged. */
bool apply_is_text(int fd);
/* A link at this path with this target leads out of the workspace, as far as names tell. */
bool apply_link_leads_out(const char *path, const char *target);
/* Relative, no part of it empty, "." or "..". */
bool apply_path_ok(const char *path);
