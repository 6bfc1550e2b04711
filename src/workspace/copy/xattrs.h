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
/* The same without overlayfs's own records (user.overlay.*): outside its upper folder they would mean nothing, or too much. */
int xattrs_read_plain(int fd, struct buf *ret);
/* Adds what is in a block but those, up to where it is broken; see buf_ok(). */
void xattrs_add_plain(struct buf *ret, const char *block, size_t len);
/* The attributes of the file are exactly those of the block. */
bool xattrs_are(int fd, const char *block, size_t len);
/* Sets what the block says. 0 or -errno; -EBADMSG for a broken block. A file system that has no attributes is no failure. */
int xattrs_write(int fd, const char *block, size_t len);
/* Both: what one file has, to another. 0 or -errno */
int xattrs_copy(int from, int to);
