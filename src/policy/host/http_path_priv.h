/* SPDX-License-Identifier: Apache-2.0 */
/* Between http_path.c and http_path_loose.c. */
#pragma once

#include "base/macros.h"

/* The byte that "%XX" at p means, or -1. */
int http_path_encoded(const char *p, const char *end);
/* '*' and '**' as in path_glob_match(). any: a byte of the path that every letter of the pattern matches; 0: there is none. */
bool http_path_match(const char *glob, const char *end, const char *path, char any);
