/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a configuration of git is written so that every version of git, and every library that reads such files, reads the same
 * from it: what git itself writes, and what people usually do. Not plain are NUL and other control bytes, bytes that are not UTF-8, CR, a byte-order mark, a
 * line that goes on behind a backslash, quotes that stay open, two things on one line, `[a.b]`, a tab inside a value (git before 2.45 reads
 * a blank), and everything that git itself refuses.
 */
#pragma once

#include "base/macros.h"

/* 0: it is; else the number of the first line that is not, from 1. */
unsigned gitconfig_not_plain(const char *data, size_t len);
