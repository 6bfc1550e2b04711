/* SPDX-License-Identifier: Apache-2.0 */
/* Lines to events. */
#include "service/front/front_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/str.h"

void lines_done(struct event_lines *l) {
    buf_done(&l->part);
}

/* A carriage return would end a line of server-sent events, too. JSON has none outside of strings but as a space. */
static void add_plain(struct buf *out, const char *line, size_t len) {
    while (len) {
        const char *cr = memchr(line, '\r', len);
        size_t n = cr ? (size_t)(cr - line) : len;

        buf_add(out, line, n);
        if (cr)
            buf_addc(out, ' ');
        line += n + !!cr;
        len -= n + !!cr;
    }
}

static void add_event(const struct event_lines *l, const char *line, size_t len, struct buf *out) {
    bool object = len >= 2 && line[0] == '{';

    if (len == 0)
        return;
    if (l->form == LINES_SSE)
        buf_addf(out, "id: %" PRIu64 "\ndata: ", l->at);
    if (object && (len < 6 || memcmp(line, "{\"id\":", 6) != 0))
        buf_addf(out, "{\"id\":%" PRIu64 "%s", l->at, line[1] == '}' ? "" : ",");
    else if (object)
        buf_addc(out, '{');
    add_plain(out, line + object, len - object);
    buf_adds(out, l->form == LINES_SSE ? "\n\n" : "\n");
}

int lines_add(struct event_lines *l, const char *data, size_t len, struct buf *out) {
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;

        if (!l->skip)
            buf_add(&l->part, data, n);
        l->at += n + !!end;
        if (end && !l->skip)
            add_event(l, buf_str(&l->part), l->part.len, out);
        if (!buf_ok(&l->part) || !buf_ok(out))
            return -EMSGSIZE;
        if (end) {
            buf_clear(&l->part);
            l->skip = false;
        }
        data += n + !!end;
        len -= n + !!end;
    }
    return 0;
}
