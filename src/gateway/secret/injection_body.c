/* SPDX-License-Identifier: Apache-2.0 */
/* What a client packs is unpacked here a second time, only to be looked at: what goes on is what came. */
#include <errno.h>
#include <strings.h>

#include "base/str.h"
#include "gateway/secret/injection.h"

enum { UNPACK_CHUNK = 32 * 1024, WINDOW_ANY = 15 + 32, WINDOW_RAW = -15 };

static const char *content_coding(const struct http_head *head) {
    const char *coding = http_head_get(head, "content-encoding");

    return coding ? coding : "";
}

int cred_body_init(struct cred_body *b, const struct http_head *head) {
    static const char *const codings[] = {"gzip", "x-gzip", "deflate"};
    const char *coding = content_coding(head);
    size_t i = 0;

    while (i < ARRAY_LEN(codings) && strcasecmp(coding, codings[i]) != 0)
        i++;
    if (i == ARRAY_LEN(codings))
        return 0;
    b->deflate = str_eq(codings[i], "deflate");
    b->z = calloc(1, sizeof *b->z);
    if (b->z && inflateInit2(b->z, WINDOW_ANY) == Z_OK)
        return 0;
    free(TAKE_PTR(b->z));
    return -ENOMEM;
}

static void stop_unpacking(struct cred_body *b) {
    if (b->z)
        inflateEnd(b->z);
    free(TAKE_PTR(b->z));
}

void cred_body_done(struct cred_body *b) {
    stop_unpacking(b);
    finder_stream_done(&b->plain);
    finder_stream_done(&b->unpacked);
}

/* "deflate" is zlib's format; some clients leave its head out. */
static bool is_raw(const struct cred_body *b, const uint8_t *data) {
    return b->deflate && ((data[0] & 0xf) != Z_DEFLATED || data[0] >> 4 > 7);
}

static int unpack_some(struct cred_body *b, const struct finder *f, bool *ret_over, uint32_t *ret_tag) {
    __attribute__((uninitialized)) uint8_t out[UNPACK_CHUNK];
    size_t n;
    int r;

    b->z->next_out = out;
    b->z->avail_out = sizeof out;
    r = inflate(b->z, Z_NO_FLUSH);
    if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
        return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    n = sizeof out - b->z->avail_out;
    b->n_unpacked += n;
    if (b->n_unpacked > CRED_INFLATED_MAX)
        return -EFBIG;
    *ret_over = r == Z_STREAM_END || (n < sizeof out && !b->z->avail_in);
    if (r == Z_STREAM_END && b->z->avail_in && b->z->next_in[0] == 0x1f) {
        *ret_over = inflateReset(b->z) != Z_OK; /* one more member of a gzip file */
        r = Z_OK;
    }
    if (r == Z_STREAM_END)
        stop_unpacking(b);
    return n ? finder_watch(f, &b->unpacked, out, n, ret_tag) : 0;
}

static int unpack(struct cred_body *b, const struct finder *f, const uint8_t *data, size_t len, uint32_t *ret_tag) {
    bool over = false;
    int r = 0;

    if (!b->begun && is_raw(b, data) && inflateReset2(b->z, WINDOW_RAW) != Z_OK)
        return -ENOMEM;
    b->begun = true;
    b->z->next_in = (Bytef *)(uintptr_t)data;
    b->z->avail_in = (uInt)len;
    while (r == 0 && !over)
        r = unpack_some(b, f, &over, ret_tag);
    return r;
}

int cred_body_watch(struct cred_body *b, const struct finder *f, const uint8_t *data, size_t len, uint32_t *ret_tag) {
    int r;

    if (!len)
        return 0;
    if (len > UINT32_MAX)
        return -EFBIG;
    r = finder_watch(f, &b->plain, data, len, ret_tag);
    return r != 0 || !b->z ? r : unpack(b, f, data, len, ret_tag);
}
