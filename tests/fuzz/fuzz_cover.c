/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values in what a server says: a search of every place finds no more than the one with tables, however the bytes are cut; as many bytes go
 * out as came in, and how many are held is known from the sizes of the pieces.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "gateway/secret/cover_ends.h"
#include "gateway/secret/cover_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 4 * 1024 * 1024, VALUES = 3 };

/* Every text at every place. */
static void naive_cover(struct cover *c, const uint8_t *text, size_t len, struct buf *out) {
    size_t until = 0;

    for (size_t i = 0; i < len; i++) {
        until = MAX_OF(until, i + cover_match_slowly(c, text + i, len - i));
        buf_addc(out, i < until ? '*' : (char)text[i]);
    }
}

static void check_text(struct cover *c, const uint8_t *text, size_t len, const struct buf *want) {
    CLEANUP(freep) char *copy = malloc(len + 1);

    if (!copy)
        BUG("no memory");
    memcpy(copy, text, len);
    cover_text(c, copy, len);
    if (memcmp(copy, buf_str(want), len) != 0)
        BUG("covered in another way");
}

static void check_pieces(struct cover *c, const uint8_t *text, size_t len, size_t step, const struct buf *want) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUT_MAX);
    CLEANUP(cover_stream_done) struct cover_stream s = {0};

    for (size_t at = 0; at < len; at += step) {
        size_t n = MIN_OF(step, len - at), tail = cover_tail(c);

        if (cover_pass(c, &s, text + at, n, COVER_HOLD, &out) < 0 || out.len != (at + n > tail ? at + n - tail : 0))
            BUG("another tail");
    }
    if (cover_pass(c, &s, NULL, 0, 0, &out) < 0 || out.len != len || memcmp(buf_str(&out), buf_str(want), len) != 0)
        BUG("pieces are covered in another way");
}

static void check_messages(struct cover *c, const uint8_t *text, size_t len, size_t step) {
    static const char *const types[] = {"text/event-stream", "application/json", "application/grpc"};
    CLEANUP(buf_done) struct buf out = BUF_INIT(OUT_MAX), frames = BUF_INIT(OUT_MAX);
    struct cover_stream s = {0}, t = {0};
    struct cover_ws w = {.have = 0};
    struct cover_ends e;
    int r = 0;

    cover_ends_init(&e, types[step % ARRAY_LEN(types)]);
    for (size_t at = 0; at < len; at += step) {
        size_t n = MIN_OF(step, len - at), upto = cover_ends_take(&e, text + at, n);

        if ((upto != COVER_HOLD && upto > n) || cover_pass(c, &s, text + at, n, upto, &out) < 0)
            BUG("a message that ends elsewhere");
        if (upto != COVER_HOLD && out.len < at + upto)
            BUG("a message that is held");
        r = r < 0 ? r : cover_ws_pass(c, &t, &w, text + at, n, &frames);
    }
    if (r == 0 && cover_ws_flush(c, &t, &w, &frames) < 0)
        BUG("no memory");
    cover_stream_done(&s);
    cover_stream_done(&t);
}

/* How many values, how long each piece is; then each value with its length; the rest is the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf want = BUF_INIT(OUT_MAX);
    struct cover *c = NULL;
    size_t many, step;

    if (size < 2 || cover_new(&c) < 0)
        return 0;
    many = data[0] % (VALUES + 1);
    step = 1 + data[1];
    data += 2;
    size -= 2;
    for (size_t i = 0; i < many && size; i++) {
        size_t n = MIN_OF((size_t)data[0] % 64, size - 1);

        if (cover_add(c, (const char *)data + 1, n) < 0)
            BUG("a value was not taken");
        data += 1 + n;
        size -= 1 + n;
    }
    cover_build(c);
    naive_cover(c, data, size, &want);
    check_text(c, data, size, &want);
    check_pieces(c, data, size, step, &want);
    check_messages(c, data, size, step);
    cover_free(c);
    return 0;
}
