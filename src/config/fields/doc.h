/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: base/jsonfile.h, with a ceiling. */
#pragma once

#include "base/jsonfile.h"

enum { DOC_SIZE_MAX = 1024 * 1024 };

int doc_read_fd(int fd, const char *path, struct jsonfile *ret, struct err *err); /* wants a regular file */
/* Returns 1 if the file was read, 0 if there is none. Follows symbolic links: only for files the user owns. */
int doc_read(const char *path, struct jsonfile *ret, struct err *err);
