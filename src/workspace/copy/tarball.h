/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a tar archive (ustar, with pax headers where a name, link or size does not fit): files, folders and symbolic links of user 0,
 * names relative. An agent chose the names: what is absolute, empty or has "." or ".." in it is refused (-EINVAL), so that unpacking
 * reaches nothing outside.
 */
#pragma once

#include <sys/stat.h>

#include "base/macros.h"

struct tarball {
    int fd;         /* anything that can be written to */
    uint64_t mtime; /* of the entries that come from memory: seconds since 1970 */
};

/* All return 0 or -errno. */
int tarball_bytes(struct tarball *t, const char *name, const void *data, size_t len);
/* st: of the file open as fd. Exactly st_size bytes are written, whatever it has become since: cut, or filled up with zeros. */
int tarball_file(struct tarball *t, const char *name, int fd, const struct stat *st);
int tarball_link(struct tarball *t, const char *name, const char *target, const struct stat *st);
int tarball_folder(struct tarball *t, const char *name, const struct stat *st);
int tarball_end(struct tarball *t);
