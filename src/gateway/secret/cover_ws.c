/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "gateway/secret/cover_ends.h"

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
