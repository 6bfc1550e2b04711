/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte string with a ceiling. Appending past the ceiling, or running out of memory, marks the
 * buffer as failed and drops the bytes; check buf_ok() once at the end instead of every call.
 *
 *     CLEANUP(buf_done) struct buf b = BUF_INIT(64 * 1024);
 *     buf_addf(&b, "%s=%u", name, n);
 *     if (!buf_ok(&b)) ...
 */
#pragma once

#include "base/macros.h"

struct buf {
    char *data; /* NUL-terminated once anything was added; use buf_str() for a string that is never NULL */
    size_t len, cap, ceiling;
    bool failed;
};

#define BUF_INIT(max) \
    { .ceiling = (max) }

void buf_done(struct buf *b);
void buf_clear(struct buf *b);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Appends s as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD. */
void buf_add_json(struct buf *b, const char *s);
/* Appends s so that it is safe on a terminal: control bytes and bytes that are not UTF-8 become \xNN. */
void buf_add_printable(struct buf *b, const char *s);
/* Appends s so that a POSIX shell reads it back as one word. */
void buf_add_shell(struct buf *b, const char *s);

static inline bool buf_ok(const struct buf *b) {
    return !b->failed;
}
static inline const char *buf_str(const struct buf *b) {
    return b->data ? b->data : "";
}
/* Takes the string out (malloc'ed, never NULL unless the buffer failed); the buffer is empty afterwards. */
char *buf_take(struct buf *b);
