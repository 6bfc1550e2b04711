/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of whatever bytes: as many go out as came in, each as it was or a '*', and where they were cut makes no difference. */
#include "base/str.h"
#include "gateway/secret/token_cover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *data, size_t size, enum token_cover_mode mode, bool codes) {
    CLEANUP(buf_done) struct buf whole = BUF_INIT(size + 1), pieces = BUF_INIT(size + 1);
    struct token_cover a = {.mode = mode, .codes = codes}, b = a;

    token_cover_feed(&a, data, size, true, &whole);
    for (size_t at = 0, n; at < size; at += n) {
        n = MIN_OF(size - at, (size_t)1 + data[at] % 5);
        token_cover_feed(&b, data + at, n, false, &pieces);
        if (pieces.len > at + n || at + n - pieces.len >= TOKEN_COVER_MIN)
            BUG("too much is held back, or more came out than went in");
    }
    token_cover_feed(&b, NULL, 0, true, &pieces);
    if (!buf_ok(&whole) || !buf_ok(&pieces) || whole.len != size || pieces.len != size || a.any != b.any)
        BUG("another length");
    if (size && memcmp(whole.data, pieces.data, size) != 0)
        BUG("pieces are covered in another way");
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)whole.data[i] != data[i] && whole.data[i] != '*')
            BUG("a byte that was never there");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *value = size ? malloc(size) : NULL;

    check(data, size, TOKEN_COVER_ANY, false);
    check(data, size, TOKEN_COVER_ANY, true);
    check(data, size, TOKEN_COVER_MEMBERS, false);
    if (value) {
        memcpy(value, data, size);
        token_cover_field("Location", strlen("Location"), value, size);
    }
    free(value);
    return 0;
}
