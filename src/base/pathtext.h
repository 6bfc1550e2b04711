/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text. Paths and arguments as JSON strings: JSON has characters, a path has bytes. What is not UTF-8 becomes %XX, and so does '%'. */
#pragma once

#include "base/macros.h"

struct buf;

/* Relative and inside: no part is empty, "." or "..", and no byte is NUL. */
bool path_is_below(const char *path, size_t len);

void path_text_add(struct buf *b, const char *path);
/* malloc'ed; NULL: no text of that kind (or no memory). */
char *path_text_parse(const char *text);
