/* SPDX-License-Identifier: Apache-2.0 */
/* Two versions, separated by the first NUL: the diff must be printable and its counts must be those of its lines. */
#include "base/err.h"
#include "base/str.h"
#include "review/report/diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct buf *out, const struct diff_count *n) {
    size_t added = 0, removed = 0;

    if (!str_is_utf8(buf_str(out)) || strlen(buf_str(out)) != out->len)
        BUG("not UTF-8");
    for (size_t i = 0; i < out->len; i++) {
        bool begins = i == 0 || out->data[i - 1] == '\n';

        if ((unsigned char)out->data[i] < 0x20 && out->data[i] != '\n' && out->data[i] != '\t')
            BUG("a control character");
        added += begins && out->data[i] == '+';
        removed += begins && out->data[i] == '-';
    }
    if (added != n->added || removed != n->removed)
        BUG("a line that is not counted");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool begun;
    CLEANUP(buf_done) struct buf old_ = BUF_INIT(DIFF_FILE_MAX), new_ = BUF_INIT(DIFF_FILE_MAX), out = BUF_INIT(DIFF_OUTPUT_MAX);
    const uint8_t *cut = memchr(data, 0, size);
    struct diff_count n = {0};
    struct err err = {0};

    if (!begun && diff_begin(&err) < 0)
        BUG("no libgit2");
    begun = true;
    if (!cut)
        return 0;
    buf_add(&old_, data, (size_t)(cut - data));
    buf_add(&new_, cut + 1, size - 1 - (size_t)(cut - data));
    diff_is_binary(&new_);
    if (diff_hunks(&old_, &new_, &(struct diff_style){0}, &out, &n, &err) == 0)
        check(&out, &n);
    else if (err.msg[0] == 0)
        BUG("a failure without a message");
    return 0;
}
