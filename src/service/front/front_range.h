/* SPDX-License-Identifier: Apache-2.0 */
/* The header Range (RFC 9110, section 14). */
#pragma once

#include "base/macros.h"

/* Of something that has size bytes. 1: *ret_first and *ret_len are the part. 0: it does not count, and everything is to be sent: not bytes, not
 * valid, or several parts. -ERANGE: nothing of it is there. */
int range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_len);
