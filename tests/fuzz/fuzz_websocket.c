/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a client: in one piece, and byte by byte, which must be the same. And lines of events. */
#include "service/front/front_lines.h"
#include "service/front/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A digest of all messages, and how it ended. */
static uint64_t take_all(const uint8_t *data, size_t size, size_t step, int *ret_end) {
    CLEANUP(websocket_done) struct websocket w = WEBSOCKET_INIT;
    uint64_t digest = 14695981039346656037u;
    struct websocket_message m;
    int r = 0;

    for (size_t at = 0; at < size && r >= 0; at += step) {
        size_t n = MIN_OF(step, size - at);

        if (n > websocket_room(&w))
            BUG("no room for what was asked for");
        websocket_feed(&w, (const char *)data + at, n);
        while ((r = websocket_next(&w, &m)) == 1) {
            if (m.len > WEBSOCKET_MESSAGE_MAX || m.kind == WEBSOCKET_CONTINUED ||
                (m.kind >= WEBSOCKET_CLOSE && m.len > WEBSOCKET_CONTROL_MAX))
                BUG("a message that is none");
            digest = (digest ^ m.kind) * 1099511628211u;
            for (size_t i = 0; i < m.len; i++)
                digest = (digest ^ (unsigned char)m.data[i]) * 1099511628211u;
        }
    }
    if (r < 0 && r != -WEBSOCKET_PROTOCOL && r != -WEBSOCKET_BAD_TEXT && r != -WEBSOCKET_TOO_BIG)
        BUG("an end without a code");
    *ret_end = r;
    return digest;
}

static void take_lines(const uint8_t *data, size_t size, enum lines_form form) {
    CLEANUP(lines_done) struct event_lines whole = EVENT_LINES_INIT, bits = EVENT_LINES_INIT;
    CLEANUP(buf_done) struct buf a = BUF_INIT(64 << 20), b = BUF_INIT(64 << 20);

    whole.form = bits.form = form;
    if (lines_add(&whole, (const char *)data, size, &a) < 0)
        return;
    for (size_t i = 0; i < size; i++)
        lines_add(&bits, (const char *)data + i, 1, &b);
    if (whole.at != size || bits.at != size || a.len != b.len || (a.len && memcmp(a.data, b.data, a.len) != 0))
        BUG("lines that depend on how they come");
    if (form == LINES_SSE && a.len && memchr(a.data, '\r', a.len))
        BUG("an event with another end of a line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int end_whole, end_bits;

    if (size > WEBSOCKET_INPUT_MAX)
        return 0;
    if (take_all(data, size, size ? size : 1, &end_whole) != take_all(data, size, 1, &end_bits) || end_whole != end_bits)
        BUG("messages that depend on how they come");
    take_lines(data, size, LINES_SSE);
    take_lines(data, size, LINES_NDJSON);
    return 0;
}
