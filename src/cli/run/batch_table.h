/* SPDX-License-Identifier: Apache-2.0 */
/* What a person sees of a batch: on stderr while it runs, and its result as a table. */
#pragma once

#include "ops/batch/batch.h"

struct batch_table {
    struct batch_watch watch; /* for batch_perform() */
    uint64_t begun_ms, drawn_ms;
    size_t n;             /* lines on the screen */
    unsigned widths[256]; /* of those lines */
};
void batch_table_init(struct batch_table *t); /* t must stay where it is */
void batch_table_clear(struct batch_table *t);
/* The last line of `text` (a NUL behind it) that says something, at most `columns` wide, without anything that a terminal obeys. */
void batch_last_line(const char *text, size_t len, size_t columns, struct buf *out);

/* The result. */
void batch_table_result(const struct batch *b, struct buf *out);
