/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the events file from what a command prints. */
#include "service/task/taskevents.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/hex.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "proto/api/jsonline.h"

enum { EVENT_MAX = 8 * TASK_LINE_MAX };

static void begin_event(struct buf *b, const char *type) {
    char now[CLOCK_TEXT_SIZE];

    buf_addf(b, "{\"type\":\"%s\",\"time\":\"%s\",\"data\":", type, clock_text(clock_mark(), CLOCK_ISO_MS, now));
}

static int write_event(int fd, const struct buf *b) {
    return buf_ok(b) ? fd_write_all(fd, b->data, b->len) : -ENOMEM;
}

void taskevents_object(struct buf *to, const char *type, const char *json) {
    begin_event(to, type);
    buf_adds(to, json);
    buf_adds(to, "}\n");
}

int taskevents_add(int events, const char *type, const char *json) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EVENT_MAX);

    taskevents_object(&b, type, json);
    return write_event(events, &b);
}

/* -- text or bytes ----------------------------------------------------------------------------------------------------------- */

/* How many of the last bytes are a character that is not complete, 0 to 3. */
static size_t tail_len(const char *s, size_t len) {
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)s[len - back];

        if ((c & 0xc0) == 0x80)
            continue;
        return (c >= 0xc2 && c < 0xe0 && back < 2) || (c >= 0xe0 && c < 0xf0 && back < 3) || (c >= 0xf0 && c < 0xf5 && back < 4)
                   ? back
                   : 0;
    }
    return 0;
}

static bool all_utf8(const char *data, size_t len) {
    size_t n = 1;

    for (size_t i = 0; i < len && n > 0; i += n)
        n = jsonline_utf8_len(data + i, len - i);
    return n > 0;
}

void taskevents_line(struct buf *to, const char *type, const char *data, size_t len) {
    begin_event(to, type);
    if (all_utf8(data, len))
        jsonline_add_text(to, data, len);
    else {
        buf_addc(to, '"');
        base64_add(to, data, len);
        buf_adds(to, "\",\"base64\":true");
    }
    buf_adds(to, "}\n");
}

static int write_output(int events, const char *type, const char *data, size_t len) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EVENT_MAX);

    if (len == 0)
        return 0;
    taskevents_line(&b, type, data, len);
    return write_event(events, &b);
}

/* -- lines ------------------------------------------------------------------------------------------------------------------- */

static int write_line(int events, const char *name, const char *line, size_t len) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EVENT_MAX);
    size_t text = len && line[len - 1] == '\n' ? len - 1 : len;

    if (!jsonline_is_object(line, text))
        return write_output(events, name, line, len);
    begin_event(&b, "agent");
    buf_add(&b, line, text);
    buf_adds(&b, "}\n");
    return write_event(events, &b);
}

/* How much of what waits is complete. */
static size_t ready_len(const struct task_stream *s) {
    const char *end = s->lines ? memrchr(s->rest.data, '\n', s->rest.len) : NULL;

    if (s->lines)
        return end ? (size_t)(end - s->rest.data) + 1 : s->rest.len >= TASK_LINE_MAX ? s->rest.len : 0;
    return s->rest.len - tail_len(s->rest.data, s->rest.len);
}

static int write_ready(int events, const struct task_stream *s, size_t len) {
    int r = 0;

    if (!s->lines)
        return write_output(events, s->name, s->rest.data, len);
    for (size_t at = 0; r == 0 && at < len;) {
        const char *end = memchr(s->rest.data + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (s->rest.data + at)) + 1 : len - at;

        r = write_line(events, s->name, s->rest.data + at, n);
        at += n;
    }
    return r;
}

static void drop_front(struct buf *b, size_t n) {
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

static int cut_stream(int events, struct task_stream *s) {
    char what[160];

    if (s->cut)
        return 0;
    s->cut = true;
    snprintf(what, sizeof what, "{\"limit\":\"output\",\"stream\":\"%s\",\"bytes\":%" PRIu64 "}", s->name, s->max);
    return taskevents_add(events, "limit", what);
}

int taskevents_output(int events, struct task_stream *s, const char *data, size_t len) {
    size_t room = s->max - s->stored, n = MIN_OF(room, len);
    int r = n ? fd_write_all(s->file, data, n) : 0;

    if (r < 0)
        return r;
    s->stored += n;
    s->rest.ceiling = TASK_LINE_MAX + TASK_READ_MAX + 1;
    buf_add(&s->rest, data, n);
    if (!buf_ok(&s->rest))
        return -ENOMEM;
    room = s->rest.len ? ready_len(s) : 0;
    r = room ? write_ready(events, s, room) : 0;
    if (r == 0 && room)
        drop_front(&s->rest, room);
    return r == 0 && n < len ? cut_stream(events, s) : r;
}

int taskevents_end(int events, struct task_stream *s) {
    int r = s->rest.len ? write_ready(events, s, s->rest.len) : 0;

    buf_done(&s->rest);
    return r;
}
