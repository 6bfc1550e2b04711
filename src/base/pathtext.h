/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and arguments as JSON strings: JSON has characters, a path has bytes. What is not UTF-8 becomes %XX, and so does '%'. */
#pragma once

#include "base/macros.h"

struct buf;

void path_text_add(struct buf *b, const char *path);
/* malloc'ed; NULL: no text of that kind (or no memory). */
char *path_text_parse(const char *text);
