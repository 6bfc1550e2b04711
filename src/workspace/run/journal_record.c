/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the journal as bytes. */
#include <endian.h>
#include <string.h>

#include "base/pathtext.h"
#include "workspace/run/journal_priv.h"

enum { RECORD_HEAD = 8, MODE_BITS = 07777 };

/* The numbers of a record, in this order. */
struct fixed {
    uint32_t kind, flags, mode, path_len, link_len, xattrs_len;
    uint64_t size, mtime_ns, blob, dev, ino;
};
static_assert(sizeof(struct fixed) == 6 * 4 + 5 * 8, "no padding");

uint32_t journal_checksum(const char *data, size_t len) {
    static const uint32_t nibble[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    uint32_t crc = ~0u;

    for (size_t i = 0; i < len; i++) {
        crc ^= (unsigned char)data[i];
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return ~crc;
}

/* Little-endian in the file: a home may be shared between machines. The same function reads and writes. */
static void swap_if_big(struct fixed *f) {
    uint32_t *small[] = {&f->kind, &f->flags, &f->mode, &f->path_len, &f->link_len, &f->xattrs_len};
    uint64_t *large[] = {&f->size, &f->mtime_ns, &f->blob, &f->dev, &f->ino};

    for (size_t i = 0; i < ARRAY_LEN(small); i++)
        *small[i] = le32toh(*small[i]);
    for (size_t i = 0; i < ARRAY_LEN(large); i++)
        *large[i] = le64toh(*large[i]);
}

static uint32_t get_u32(const char *data) {
    uint32_t n;

    memcpy(&n, data, sizeof n);
    return le32toh(n);
}

void journal_encode(const struct journal_entry *e, enum journal_form form, struct buf *out) {
    struct fixed f = {.kind = e->kind,
                      .flags = form,
                      .mode = e->mode & MODE_BITS,
                      .path_len = (uint32_t)strlen(e->path),
                      .link_len = e->link ? (uint32_t)strlen(e->link) : 0,
                      .xattrs_len = (uint32_t)e->xattrs_len,
                      .size = e->size,
                      .mtime_ns = e->mtime_ns,
                      .blob = e->blob,
                      .dev = e->dev,
                      .ino = e->ino};
    uint32_t head[2] = {0};
    size_t path_len = f.path_len, link_len = f.link_len, begin = out->len;

    swap_if_big(&f);
    buf_add(out, head, sizeof head);
    buf_add(out, &f, sizeof f);
    buf_add(out, e->path, path_len + 1);
    buf_add(out, e->link ? e->link : "", link_len + 1);
    buf_add(out, e->xattrs, e->xattrs_len);
    if (!buf_ok(out))
        return;
    head[0] = htole32((uint32_t)(out->len - begin - RECORD_HEAD));
    head[1] = htole32(journal_checksum(out->data + begin + RECORD_HEAD, out->len - begin - RECORD_HEAD));
    memcpy(out->data + begin, head, sizeof head);
}

bool journal_is_path(const char *path, size_t len) {
    return len <= JOURNAL_PATH_MAX && path_is_below(path, len);
}

static bool is_sound_record(const struct fixed *f, const char *path, const char *link) {
    bool is_link = f->kind == JOURNAL_LINK;

    if (f->kind > JOURNAL_OTHER || f->flags > JOURNAL_NAMED || f->mode > MODE_BITS || path[f->path_len] != 0 ||
        link[f->link_len] != 0)
        return false;
    if (f->flags == JOURNAL_NAMED && (f->blob || (f->kind != JOURNAL_FILE && f->kind != JOURNAL_DIR)))
        return false;
    if ((f->blob || (f->flags && f->flags != JOURNAL_NAMED)) && f->kind != JOURNAL_FILE)
        return false;
    if (f->flags == JOURNAL_PACKED && (f->blob == 0 || f->blob > INT64_MAX / 2 || f->size > JOURNAL_PACKED_MAX))
        return false;
    return journal_is_path(path, f->path_len) && is_link == (f->link_len > 0) && !memchr(link, 0, f->link_len);
}

size_t journal_decode(const char *data, size_t len, struct journal_entry *ret, enum journal_form *ret_form) {
    const char *path, *link, *xattrs;
    struct fixed f;
    size_t body;

    if (len < RECORD_HEAD + sizeof f)
        return 0;
    body = get_u32(data);
    if (body < sizeof f || body > JOURNAL_RECORD_MAX || body > len - RECORD_HEAD ||
        get_u32(data + 4) != journal_checksum(data + RECORD_HEAD, body))
        return 0;
    memcpy(&f, data + RECORD_HEAD, sizeof f);
    swap_if_big(&f);
    if (f.path_len > JOURNAL_PATH_MAX || f.link_len > JOURNAL_PATH_MAX || f.xattrs_len > XATTRS_MAX ||
        body != sizeof f + f.path_len + f.link_len + f.xattrs_len + 2)
        return 0;
    path = data + RECORD_HEAD + sizeof f;
    link = path + f.path_len + 1;
    xattrs = link + f.link_len + 1;
    if (!is_sound_record(&f, path, link))
        return 0;
    *ret_form = (enum journal_form)f.flags;
    *ret = (struct journal_entry){.kind = (enum journal_kind)f.kind,
                                  .path = path,
                                  .mode = f.mode,
                                  .size = f.size,
                                  .mtime_ns = f.mtime_ns,
                                  .link = f.link_len ? link : NULL,
                                  .xattrs = f.xattrs_len ? xattrs : NULL,
                                  .xattrs_len = f.xattrs_len,
                                  .blob = f.blob,
                                  .dev = f.dev,
                                  .ino = f.ino,
                                  .named = f.flags == JOURNAL_NAMED};
    return RECORD_HEAD + body;
}
