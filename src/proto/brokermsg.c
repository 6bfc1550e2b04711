/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and packs messages of the broker. */
#include "proto/brokermsg.h"

#include <errno.h>

#include "proto/cursor.h"
#include "proto/plain.h"

enum { ERRNO_MAX = 4095 };

long broker_parts_write(const struct broker_part *parts, size_t n, uint8_t *out, size_t cap) {
    size_t at = 0;

    if (n > BROKER_PARTS_MAX)
        return -E2BIG;
    for (size_t i = 0; i < n; i++) {
        uint32_t len = (uint32_t)parts[i].len;

        if (parts[i].len > BROKER_DATA_MAX || cap - at < sizeof len || cap - at - sizeof len < len)
            return -E2BIG;
        memcpy(out + at, &len, sizeof len);
        at += sizeof len;
        if (len)
            memcpy(out + at, parts[i].p, len);
        at += len;
    }
    return (long)at;
}

int broker_parts_read(const uint8_t *data, size_t len, struct broker_part *ret, size_t n) {
    struct broker_part parts[BROKER_PARTS_MAX];
    struct cursor c = {(const char *)data, len};

    if (n > BROKER_PARTS_MAX || len > BROKER_DATA_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < n; i++) {
        uint32_t one;

        if (cursor_take(&c, &one, sizeof one) < 0)
            return -EBADMSG;
        parts[i] = (struct broker_part){cursor_skip(&c, one), one};
        if (!parts[i].p)
            return -EBADMSG;
    }
    if (c.left)
        return -EBADMSG;
    memcpy(ret, parts, n * sizeof parts[0]);
    return 0;
}

int vault_status(int r) {
    static const int known[] = {-EKEYEXPIRED, -ETIMEDOUT, -E2BIG};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (r == known[i])
            return r;
    return -ENOKEY;
}

/* An ssh key has no grant. */
static bool index_ok(const struct broker_msg *m) {
    return m->index < BROKER_GRANTS_MAX || (m->type == BROKER_MSG_USED && m->index == UINT32_MAX);
}

int brokermsg_sane(struct broker_msg *m) {
    if (m->type < BROKER_MSG_WANT_VALUE || m->type >= BROKER_MSG_TYPES || m->port > UINT16_MAX || !index_ok(m))
        return -EBADMSG;
    if (m->type == BROKER_MSG_USED ? m->value < -ERRNO_MAX || m->value > ERRNO_MAX : m->value < 0 || m->value > 1)
        return -EBADMSG;
    if ((m->type == BROKER_MSG_USED) != (m->count > 0))
        return -EBADMSG;
    if (!plain_make(m->host, sizeof m->host) || !plain_make(m->method, sizeof m->method) || !plain_make(m->text, sizeof m->text))
        return -EBADMSG;
    return 0;
}
