/* SPDX-License-Identifier: Apache-2.0 */
/* Three versions, separated by NULs. A side that changed nothing must give way to the other. */
#include "base/err.h"
#include "review/report/diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *take(const uint8_t *data, const uint8_t *end, struct buf *b) {
    const uint8_t *cut = data < end ? memchr(data, 0, (size_t)(end - data)) : NULL;

    cut = cut ? cut : end;
    buf_add(b, data, (size_t)(cut - data));
    return cut < end ? cut + 1 : end;
}

static bool same(const struct buf *a, const struct buf *b) {
    return a->len == b->len && memcmp(buf_str(a), buf_str(b), a->len) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool begun;
    CLEANUP(buf_done) struct buf base = BUF_INIT(DIFF_FILE_MAX), ours = BUF_INIT(DIFF_FILE_MAX), theirs = BUF_INIT(DIFF_FILE_MAX);
    CLEANUP(buf_done) struct buf out = BUF_INIT(3 * DIFF_FILE_MAX), one = BUF_INIT(3 * DIFF_FILE_MAX);
    const uint8_t *end = data + size;
    struct err err = {0};

    if (!begun && diff_begin(&err) < 0)
        BUG("no libgit2");
    begun = true;
    data = take(data, end, &base);
    data = take(data, end, &ours);
    take(data, end, &theirs);
    if (diff_merge(&base, &ours, &theirs, &out, &err) < 0 && err.msg[0] == 0)
        BUG("a failure without a message");
    if (diff_merge(&base, &base, &theirs, &one, &err) == 0 && !same(&one, &theirs))
        BUG("the only change was lost");
    return 0;
}
