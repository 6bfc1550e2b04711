/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to bawn.internal/request. Must hold: however many bytes have come, what is whole stays what it is; texts end. */
#include "base/buf.h"
#include "base/str.h"
#include "gateway/flow/wish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(64 * 1024);
    struct gate_msg whole = {0}, part = {0};
    const char *why = "none";
    enum wish_result r = wish_read(data, size, &whole, &why), early;

    if (r == WISH_BAD && !why)
        BUG("a refusal without a reason");
    if (r == WISH_OK && gatemsg_sane(&whole) < 0)
        BUG("a question that the supervisor does not take");
    if (r == WISH_OK && (!whole.method[0] || !whole.path[0] || !whole.pattern[0]))
        BUG("a question without words");
    for (size_t n = 0; r == WISH_MORE && n < size; n += 7) {
        early = wish_read(data, n, &part, &why);
        if (early == WISH_OK)
            BUG("a part is whole, and all of it is not");
    }
    wish_answer(r == WISH_OK ? 200 : 400, "once", why ? why : "", &out);
    return buf_ok(&out) ? 0 : 0;
}
