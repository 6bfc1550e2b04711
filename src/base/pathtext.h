/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text. Paths and arguments as JSON strings: JSON has characters, a path has bytes. What is not UTF-8 becomes %XX, and so does '%'. */
#pragma once

#include <limits.h>

#include "base/macros.h"

struct buf;

/* Relative and inside: no part is empty, "." or "..", and no byte is NUL. */
bool path_is_below(const char *path, size_t len);
/* The next name of a relative path, which *rest moves past. 1: more follow, 0: it is the last one; -ENAMETOOLONG: too long, or empty. */
int path_next(const char **rest, char name[static NAME_MAX + 1]);

void path_text_add(struct buf *b, const char *path);
/* malloc'ed; NULL: no text of that kind (or no memory). */
char *path_text_parse(const char *text);
