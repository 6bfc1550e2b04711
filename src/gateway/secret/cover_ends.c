/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/secret/cover_ends.h"
#include "base/buf.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { GRPC_HEAD = 5 };

static bool type_is(const char *type, size_t len, const char *want) {
    return strlen(want) == len && strncasecmp(type, want, len) == 0;
}

static bool type_ends(const char *type, size_t len, const char *end) {
    size_t n = strlen(end);

    return len > n && strncasecmp(type + len - n, end, n) == 0;
}

void cover_ends_init(struct cover_ends *e, const char *type) {
    static const struct {
        const char *type;
        enum cover_ends_kind kind;
    } types[] = {
        {"text/event-stream", ENDS_EVENT},    {"application/json", ENDS_LINE},     {"application/x-ndjson", ENDS_LINE},
        {"application/ndjson", ENDS_LINE},    {"application/jsonl", ENDS_LINE},    {"application/x-jsonlines", ENDS_LINE},
        {"application/jsonlines", ENDS_LINE}, {"application/json-seq", ENDS_LINE}, {"application/grpc", ENDS_GRPC},
    };
    size_t len = type ? strcspn(type, "; \t") : 0;

    *e = (struct cover_ends){.kind = type_ends(type ? type : "", len, "+json") ? ENDS_LINE : ENDS_NONE};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (type_is(type ? type : "", len, types[i].type))
            e->kind = types[i].kind;
    if (len > strlen("application/grpc+") && strncasecmp(type, "application/grpc+", strlen("application/grpc+")) == 0)
        e->kind = ENDS_GRPC;
}

static size_t take_events(struct cover_ends *e, const uint8_t *data, size_t len) {
    size_t end = COVER_HOLD;

    for (size_t i = 0; i < len; i++) {
        bool line_end = data[i] == '\n' || data[i] == '\r';

        if (data[i] == '\n' && e->after_cr) {
            e->after_cr = false;
            end = e->ended ? i + 1 : end; /* belongs to what has ended */
            continue;
        }
        e->after_cr = data[i] == '\r';
        e->ended = line_end && !e->in_line;
        end = e->ended ? i + 1 : end;
        e->in_line = !line_end;
    }
    return end;
}

static size_t take_lines(const uint8_t *data, size_t len) {
    const uint8_t *last = len ? memrchr(data, '\n', len) : NULL;

    return last ? (size_t)(last - data) + 1 : COVER_HOLD;
}

static size_t take_grpc(struct cover_ends *e, const uint8_t *data, size_t len) {
    size_t end = COVER_HOLD;

    for (size_t i = 0; i < len;) {
        if (e->have < GRPC_HEAD) {
            e->left = e->have ? e->left << 8 | data[i] : 0;
            e->have++;
            i++;
        } else {
            size_t n = MIN_OF((size_t)e->left, len - i);

            e->left -= (uint32_t)n;
            i += n;
        }
        if (e->have == GRPC_HEAD && !e->left) {
            end = i;
            e->have = 0;
        }
    }
    return end;
}

size_t cover_ends_take(struct cover_ends *e, const uint8_t *data, size_t len) {
    switch (e->kind) {
    case ENDS_NONE:
        return COVER_HOLD;
    case ENDS_EVENT:
        return take_events(e, data, len);
    case ENDS_LINE:
        return take_lines(data, len);
    case ENDS_GRPC:
        return take_grpc(e, data, len);
    }
    BUG("messages of no kind");
}

enum { FIN = 0x80, RSV = 0x70, OPCODE = 0x0f, CONTROL = 0x08, MASKED = 0x80, LENGTH = 0x7f, LENGTH16 = 126, LENGTH64 = 127 };
enum { OUT_MAX = 8 * 1024 * 1024 };

static void put_frame(uint8_t first, const void *data, size_t len, struct buf *out) {
    uint8_t head[10] = {first, len < LENGTH16 ? (uint8_t)len : len <= UINT16_MAX ? LENGTH16 : LENGTH64};
    size_t n = head[1] == LENGTH16 ? 2 : head[1] == LENGTH64 ? 8 : 0;

    for (size_t i = 0; i < n; i++)
        head[2 + i] = (uint8_t)((uint64_t)len >> (8 * (n - 1 - i)));
    buf_add(out, head, 2 + n);
    buf_add(out, data, len);
}

/* Bytes of a message, as one frame of it; upto as in cover_pass(). */
static int pass(struct cover *c, struct cover_stream *s, struct cover_ws *w, const uint8_t *data, size_t len, size_t upto,
                bool fin, struct buf *out) {
    CLEANUP(buf_done) struct buf piece = BUF_INIT(OUT_MAX);
    int r = cover_pass(c, s, data, len, upto, &piece);

    if (r < 0) {
        out->failed = true;
        return r;
    }
    if (!piece.len && !fin)
        return 0;
    put_frame((uint8_t)((fin ? FIN : 0) | w->opcode), buf_str(&piece), piece.len, out);
    w->opcode = 0;
    return buf_ok(out) ? 0 : -ENOMEM;
}

static uint8_t head_size(const struct cover_ws *w) {
    uint8_t len = w->have > 1 ? w->head[1] & LENGTH : 0;

    return (uint8_t)(2 + (len == LENGTH16 ? 2 : len == LENGTH64 ? 8 : 0));
}

static bool is_control(const struct cover_ws *w) {
    return w->head[0] & CONTROL;
}

/* The head of a frame is whole. */
static int begin_frame(struct cover_ws *w) {
    uint8_t opcode = w->head[0] & OPCODE;

    w->left = w->head[1] & LENGTH;
    if (w->left >= LENGTH16) {
        w->left = 0;
        for (uint8_t i = 2; i < w->have; i++)
            w->left = w->left << 8 | w->head[i];
    }
    w->have = 0;
    w->in_frame = true;
    if ((w->head[0] & RSV) || (w->head[1] & MASKED))
        return -EPROTO;
    if (is_control(w))
        return w->left > WS_CONTROL_MAX || !(w->head[0] & FIN) ? -EPROTO : 0;
    if ((opcode == 0) != w->open || w->left > INT64_MAX)
        return -EPROTO;
    if (opcode)
        w->opcode = opcode;
    w->open = !(w->head[0] & FIN);
    return 0;
}

static int take_control(struct cover *c, struct cover_ws *w, const uint8_t *data, size_t len, struct buf *out) {
    memcpy(w->control + w->have, data, len);
    w->have = (uint8_t)(w->have + len);
    if (w->left)
        return 0;
    cover_text(c, (char *)w->control, w->have);
    put_frame(w->head[0], w->control, w->have, out);
    return 0;
}

/* Bytes of a frame's payload; len may be 0. */
static int take_payload(struct cover *c, struct cover_stream *s, struct cover_ws *w, const uint8_t *data, size_t len,
                        struct buf *out) {
    bool fin;
    int r;

    w->left -= len;
    fin = !w->left && (w->head[0] & FIN);
    if (is_control(w))
        r = take_control(c, w, data, len, out);
    else
        r = pass(c, s, w, data, len, fin ? len : COVER_HOLD, fin, out);
    if (!w->left) {
        w->in_frame = false;
        w->have = 0;
    }
    return r;
}

int cover_ws_pass(struct cover *c, struct cover_stream *s, struct cover_ws *w, const uint8_t *data, size_t len, struct buf *out) {
    size_t at = 0;
    int r = 0;

    while (r == 0 && (at < len || (w->in_frame && !w->left))) {
        if (!w->in_frame) {
            w->head[w->have++] = data[at++];
            if (w->have >= 2 && w->have == head_size(w))
                r = begin_frame(w);
        } else {
            size_t n = (size_t)MIN_OF(w->left, (uint64_t)(len - at));

            r = take_payload(c, s, w, data + at, n, out);
            at += n;
        }
    }
    return r;
}

int cover_ws_flush(struct cover *c, struct cover_stream *s, struct cover_ws *w, struct buf *out) {
    return cover_holds(s) ? pass(c, s, w, NULL, 0, 0, false, out) : 0;
}
