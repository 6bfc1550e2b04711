/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user.* extended attributes of a file as one block of bytes: "name\0", u32 length in the host's order, value, and so on,
 * sorted by name, so that two blocks can be compared. No other attribute is ever read or written: security.* gives rights.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum { XATTRS_MAX = 1024 * 1024 }; /* bytes of one block */

/* Adds the block of the file open as fd (not O_PATH) to ret, which must be empty; nothing if it has none, or if its file system
 * has no such thing. 0 or -errno; -E2BIG past XATTRS_MAX. */
int xattrs_read(int fd, struct buf *ret);
/* Sets what the block says. 0 or -errno; -EBADMSG for a broken block. A file system that has no attributes is no failure. */
int xattrs_write(int fd, const char *block, size_t len);
/* Both: what one file has, to another. 0 or -errno */
int xattrs_copy(int from, int to);
