/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of JSON to events of a stream: server-sent events, or the lines with their ids. The id of an event is where its line ends in the file, so a
 * client that says the last one it has goes on behind it.
 */
#pragma once

#include "base/buf.h"

enum { LINE_MAX_BYTES = 4 << 20 };

enum lines_form { LINES_SSE, LINES_NDJSON };

struct event_lines {
    enum lines_form form;
    uint64_t at;     /* how many bytes of the file were taken */
    bool skip;       /* it began within a line, which is left out */
    struct buf part; /* of a line without its end */
};
#define EVENT_LINES_INIT \
    { .part = BUF_INIT(LINE_MAX_BYTES) }

/* Events of all whole lines are appended to out. 0; -EMSGSIZE: a line, or the output, is too long. */
int lines_add(struct event_lines *l, const char *data, size_t len, struct buf *out);
void lines_done(struct event_lines *l);
