/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of sandbox.json and state.json. Must hold: what is read is the same after it was written and read again. */
#include "base/err.h"
#include "base/str.h"
#include "registry/registry_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_text(const struct buf *a, const struct buf *b) {
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

static void try_info(const char *text, size_t len) {
    CLEANUP(box_info_done) struct box_info a = {0}, b = {0};
    CLEANUP(buf_done) struct buf once = BUF_INIT(8 * BOX_INFO_MAX), twice = BUF_INIT(8 * BOX_INFO_MAX);
    struct err err = {0};

    if (box_info_parse(text, len, &a, &err) < 0) {
        if (err.msg[0] == 0)
            BUG("a failure without a message");
        return;
    }
    if (box_info_write(&a, &once, &err) < 0 || box_info_parse(buf_str(&once), once.len, &b, &err) < 0 ||
        box_info_write(&b, &twice, &err) < 0 || !same_text(&once, &twice))
        BUG("not the description that was read");
}

static void try_state(const char *text, size_t len) {
    CLEANUP(box_state_done) struct box_state a = {0}, b = {0};
    CLEANUP(buf_done) struct buf once = BUF_INIT(8 * BOX_INFO_MAX), twice = BUF_INIT(8 * BOX_INFO_MAX);
    struct err err = {0};

    if (box_state_parse(text, len, &a) < 0)
        return;
    if (box_state_write(&a, &once, &err) < 0 || box_state_parse(buf_str(&once), once.len, &b) < 0 ||
        box_state_write(&b, &twice, &err) < 0 || !same_text(&once, &twice))
        BUG("not the state that was read");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_info((const char *)data, size);
    try_state((const char *)data, size);
    return 0;
}
