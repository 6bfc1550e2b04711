/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a run: lines of JSON, {"type", "time", "data"[, "base64"]}, each appended in one write. An event's id is the offset of its end in the
 * file, so ids are never used again and a stream resumes by seeking.
 *
 * Output is text wherever it is UTF-8: a character that is cut at the end of a read waits for its rest. Other bytes are base64.
 */
#pragma once

#include "base/buf.h"

struct task_stream {
    const char *name; /* "stdout" */
    int file;         /* raw bytes are appended here */
    bool lines;       /* each line that is a JSON object is an event of type agent */
    uint64_t max, stored;
    bool cut;
    struct buf rest; /* the cut character, or the unfinished line */
};
enum { TASK_READ_MAX = 32 * 1024, TASK_LINE_MAX = 1024 * 1024 };

/* One line: output as text or base64, or JSON as it is. */
void taskevents_line(struct buf *to, const char *type, const char *data, size_t len);
void taskevents_object(struct buf *to, const char *type, const char *json);

/* 0 or -errno, of writing. */
int taskevents_add(int events, const char *type, const char *json); /* data: JSON */
int taskevents_output(int events, struct task_stream *s, const char *data, size_t len);
int taskevents_end(int events, struct task_stream *s); /* what still waits */
