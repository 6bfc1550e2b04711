/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON into a struct buf, member by member. Commas come by themselves: they follow from the last byte of the buffer.
 *
 *     struct jsonout j = {.to = &b};
 *     jsonout_open(&j, NULL, '{');
 *     jsonout_text(&j, "name", name);          NULL: null
 *     jsonout_u64(&j, "size", size);
 *     jsonout_close(&j, '}');                  {"name": "x", "size": 3}
 *
 * key: NULL for an element of an array and for the outermost value. It is written as it is. Bytes that are no UTF-8 become U+FFFD
 * (buf_add_json()). A buffer that already has text in it must end with a space, a line feed or an open bracket.
 */
#pragma once

#include "base/macros.h"

struct buf;
struct strv;

struct jsonout {
    struct buf *to;
    bool compact; /* no space after ',' and ':', for messages between our programs */
};

void jsonout_open(struct jsonout *j, const char *key, char bracket); /* '{' or '[' */
void jsonout_close(struct jsonout *j, char bracket);
/* The comma, if one is due, then white space of the caller's: for lists with a line for each element. */
void jsonout_break(struct jsonout *j, const char *space);
/* Only what comes before a value, which the caller adds to the buffer. */
void jsonout_key(struct jsonout *j, const char *key);

void jsonout_text(struct jsonout *j, const char *key, const char *value); /* NULL: null */
void jsonout_u64(struct jsonout *j, const char *key, uint64_t value);
void jsonout_u64_if(struct jsonout *j, const char *key, bool known, uint64_t value); /* else null */
void jsonout_int(struct jsonout *j, const char *key, int64_t value);
void jsonout_bool(struct jsonout *j, const char *key, bool value);
void jsonout_null(struct jsonout *j, const char *key);
void jsonout_list(struct jsonout *j, const char *key, const struct strv *list);
void jsonout_strings(struct jsonout *j, const char *key, char *const *v, size_t n);
/* "2026-01-31T12:00:00Z", null for 0. */
void jsonout_time(struct jsonout *j, const char *key, uint64_t ns);
