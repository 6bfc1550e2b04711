/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and strings of SSH. */
#include "proto/ssh_wire.h"

#include "base/buf.h"

static const uint8_t *take_bytes(struct ssh_reader *r, size_t n) {
    const uint8_t *p = r->p;

    if (r->bad || r->left < n) {
        r->bad = true;
        return NULL;
    }
    r->p += n;
    r->left -= n;
    return p;
}

uint8_t ssh_get_u8(struct ssh_reader *r) {
    const uint8_t *p = take_bytes(r, 1);

    return p ? p[0] : 0;
}

uint32_t ssh_get_u32(struct ssh_reader *r) {
    const uint8_t *p = take_bytes(r, 4);

    return p ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3] : 0;
}

bool ssh_get_bool(struct ssh_reader *r) {
    uint8_t v = ssh_get_u8(r);

    if (v > 1)
        r->bad = true;
    return v == 1;
}

struct ssh_bytes ssh_get_string(struct ssh_reader *r) {
    uint32_t len = ssh_get_u32(r);
    const uint8_t *p = take_bytes(r, len);

    return p ? (struct ssh_bytes){p, len} : (struct ssh_bytes){0};
}

bool ssh_end(const struct ssh_reader *r) {
    return !r->bad && r->left == 0;
}

bool ssh_is(struct ssh_bytes b, const char *text) {
    return b.len == strlen(text) && memcmp(b.p, text, b.len) == 0;
}

bool ssh_same(struct ssh_bytes a, struct ssh_bytes b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

bool ssh_ends(struct ssh_bytes b, const char *suffix) {
    size_t n = strlen(suffix);

    return b.len >= n && memcmp(b.p + b.len - n, suffix, n) == 0;
}

void ssh_put_u32(struct buf *b, uint32_t v) {
    uint8_t bytes[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};

    buf_add(b, bytes, sizeof bytes);
}

void ssh_put_string(struct buf *b, const void *p, size_t len) {
    ssh_put_u32(b, (uint32_t)len);
    if (len)
        buf_add(b, p, len);
}
