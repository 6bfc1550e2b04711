/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the byte link: what is accepted is in bounds, and encodes to the same bytes. */
#include <string.h>

#include "proto/link/linkmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const uint8_t *a, const uint8_t *b, size_t len) {
    if (memcmp(a, b, len) != 0)
        BUG("encoding does not undo decoding");
}

static void check_header(const uint8_t *data) {
    uint8_t again[LINK_HEADER];
    struct link_header h;

    if (link_header_decode(data, &h) < 0)
        return;
    if (h.channel >= LINK_CHANNELS || h.len > LINK_PAYLOAD_MAX || (h.type != LINK_DATA && h.len > LINK_SMALL_MAX))
        BUG("a frame out of bounds");
    link_header_encode(&h, again);
    check_same(data, again, sizeof again);
}

static void check_open(const uint8_t *data) {
    uint8_t again[LINK_OPEN_SIZE];
    struct link_open o;

    if (link_open_decode(data, &o) < 0)
        return;
    if (o.place >= LINK_PLACES)
        BUG("a place that does not exist");
    link_open_encode(&o, again);
    check_same(data, again, sizeof again);
}

static void check_tty(const uint8_t *data) {
    uint8_t again[LINK_TTY_BYTES];
    struct link_tty t;

    if (link_tty_decode(data, &t) < 0)
        return;
    link_tty_encode(&t, again);
    check_same(data, again, sizeof again);
}

static void check_start(const uint8_t *data, size_t size) {
    uint8_t again[LINK_START_SIZE];
    struct link_start s;

    if (link_start_decode(data, size, &s) < 0)
        return;
    for (size_t i = 0; i < LINK_PLACES_SHOWN; i++)
        if (strlen(s.shown[i]) >= LINK_PATH_MAX)
            BUG("a path without an end");
    link_start_encode(&s, again);
    check_same(data, again, sizeof again);
}

static void check_started(const uint8_t *data, size_t size) {
    uint8_t again[LINK_STARTED_SIZE];
    struct link_started s;

    if (link_started_decode(data, size, &s) < 0)
        return;
    if (strlen(s.why) >= LINK_WHY_MAX)
        BUG("a text without an end");
    link_started_encode(&s, again);
    check_same(data, again, sizeof again);
}

static void check_message(const uint8_t *data, size_t size) {
    uint8_t head[LINK_MESSAGE_HEAD];
    struct link_message m;
    size_t n;

    if (link_message_decode(data, size, &m) < 0)
        return;
    n = link_message_head(m.channels, m.n_channels, head);
    if (m.bytes != data + n || m.bytes + m.len != data + size)
        BUG("a message that is not in its frame");
    check_same(data, head, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t padded[512] = {0};
    struct link_hello h;

    memcpy(padded, data, size < sizeof padded ? size : sizeof padded);
    if (link_hello_decode(padded, &h) == 0 && h.role != LINK_NEAR && h.role != LINK_FAR)
        BUG("a part that nobody plays");
    check_header(padded);
    check_open(padded);
    check_tty(padded);
    check_start(data, size);
    check_started(data, size);
    check_message(data, size);
    return 0;
}
