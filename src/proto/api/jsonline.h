/* SPDX-License-Identifier: Apache-2.0 */
/* Whether bytes are one JSON object (RFC 8259), so that they can be put into a line of JSON as they are. Nothing is allocated or converted. */
#pragma once

#include "base/macros.h"

enum { JSONLINE_DEPTH_MAX = 64 };

struct buf;

/* An object, nested at most JSONLINE_DEPTH_MAX deep, in UTF-8, without a line feed and with nothing but spaces around it. */
bool jsonline_is_object(const char *text, size_t len);

/* Of the character at s, of which `left` > 0 bytes are there: 1 to 4; 0: it is no UTF-8. A NUL is a character. */
size_t jsonline_utf8_len(const char *s, size_t left);
/* A JSON string, quotes included; bytes that are no UTF-8 become U+FFFD. */
void jsonline_add_text(struct buf *b, const char *data, size_t len);
