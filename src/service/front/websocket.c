/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of WebSockets. */
#include "service/front/websocket.h"

#include <string.h>

#include "base/hex.h"
#include "base/sha1.h"
#include "base/str.h"

enum { BIT_FIN = 0x80, BITS_RESERVED = 0x70, BITS_KIND = 0x0f, BIT_MASK = 0x80, MASK_LEN = 4, LEN_16 = 126, LEN_64 = 127 };

struct websocket_head {
    bool fin;
    unsigned kind;
    size_t head, len;
    unsigned char mask[MASK_LEN];
};

void websocket_done(struct websocket *w) {
    buf_done(&w->in);
    buf_done(&w->message);
}

size_t websocket_room(const struct websocket *w) {
    return WEBSOCKET_INPUT_MAX - (w->in.len - w->used);
}

void websocket_feed(struct websocket *w, const char *data, size_t len) {
    if (w->used) {
        memmove(w->in.data, w->in.data + w->used, w->in.len - w->used);
        w->in.len -= w->used;
        w->used = 0;
    }
    buf_add(&w->in, data, len);
}

/* 1: ret is set, 0: more bytes are needed */
static int read_head(const unsigned char *p, size_t have, struct websocket_head *ret) {
    static const size_t extra[] = {[LEN_16] = 2, [LEN_64] = 8};
    size_t n = have >= 2 ? p[1] & ~BIT_MASK & 0xff : 0, bytes = n >= LEN_16 ? extra[n] : 0;
    uint64_t len = n;

    if (have < 2)
        return 0;
    ret->fin = p[0] & BIT_FIN;
    ret->kind = p[0] & BITS_KIND;
    if (p[0] & BITS_RESERVED || !(p[1] & BIT_MASK))
        return -WEBSOCKET_PROTOCOL;
    if (ret->kind >= WEBSOCKET_CLOSE && (n > WEBSOCKET_CONTROL_MAX || !ret->fin))
        return -WEBSOCKET_PROTOCOL;
    if (have < 2 + bytes + MASK_LEN)
        return 0;
    if (bytes) {
        len = 0;
        for (size_t i = 0; i < bytes; i++)
            len = len << 8 | p[2 + i];
        if (len < (bytes == 2 ? LEN_16 : 1u << 16))
            return -WEBSOCKET_PROTOCOL;
    }
    if (len > WEBSOCKET_MESSAGE_MAX)
        return -WEBSOCKET_TOO_BIG;
    ret->head = 2 + bytes + MASK_LEN;
    ret->len = (size_t)len;
    memcpy(ret->mask, p + 2 + bytes, MASK_LEN);
    return 1;
}

static bool is_utf8(const char *data, size_t len) {
    return !memchr(data, 0, len) ? str_is_utf8(data) : false;
}

static bool is_close_code(unsigned code) {
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) || (code >= 3000 && code <= 4999);
}

/* The payload, unmasked, with a NUL behind it: in a copy, because the next frame may follow it. */
static int give_control(struct websocket *w, const struct websocket_head *f, char *data, struct websocket_message *ret) {
    char *copy = w->control;

    memcpy(copy, data, f->len);
    copy[f->len] = 0;
    *ret = (struct websocket_message){.kind = (enum websocket_kind)f->kind, .data = copy, .len = f->len};
    if (f->kind != WEBSOCKET_CLOSE || f->len == 0)
        return 1;
    if (f->len == 1)
        return -WEBSOCKET_PROTOCOL;
    ret->code = (unsigned)((unsigned char)copy[0] << 8 | (unsigned char)copy[1]);
    if (!is_close_code(ret->code))
        return -WEBSOCKET_PROTOCOL;
    return is_utf8(copy + 2, f->len - 2) ? 1 : -WEBSOCKET_BAD_TEXT;
}

static int give_part(struct websocket *w, const struct websocket_head *f, const char *data, struct websocket_message *ret) {
    if ((f->kind == WEBSOCKET_CONTINUED) != w->open)
        return -WEBSOCKET_PROTOCOL;
    if (w->given) {
        buf_clear(&w->message);
        w->given = false;
    }
    if (f->kind != WEBSOCKET_CONTINUED)
        w->kind = (enum websocket_kind)f->kind;
    if (w->message.len + f->len > WEBSOCKET_MESSAGE_MAX)
        return -WEBSOCKET_TOO_BIG;
    buf_add(&w->message, data, f->len);
    if (!buf_ok(&w->message))
        return -WEBSOCKET_TOO_BIG;
    w->open = !f->fin;
    if (w->open)
        return 0;
    if (w->kind == WEBSOCKET_TEXT && w->message.len && !is_utf8(buf_str(&w->message), w->message.len))
        return -WEBSOCKET_BAD_TEXT;
    w->given = true;
    *ret = (struct websocket_message){.kind = w->kind, .data = buf_str(&w->message), .len = w->message.len};
    return 1;
}

int websocket_next(struct websocket *w, struct websocket_message *ret) {
    int r = 0;

    while (r == 0) {
        char *p = w->in.data ? w->in.data + w->used : NULL;
        size_t have = w->in.len - w->used;
        struct websocket_head f = {0};

        if (!buf_ok(&w->in))
            return -WEBSOCKET_TOO_BIG;
        r = read_head((const unsigned char *)p, have, &f);
        if (r <= 0 || have - f.head < f.len)
            return r < 0 ? r : 0;
        for (size_t i = 0; i < f.len; i++)
            p[f.head + i] = (char)((unsigned char)p[f.head + i] ^ f.mask[i % MASK_LEN]);
        w->used += f.head + f.len;
        if (f.kind >= WEBSOCKET_CLOSE && f.kind <= WEBSOCKET_PONG)
            r = give_control(w, &f, p + f.head, ret);
        else if (f.kind <= WEBSOCKET_BINARY)
            r = give_part(w, &f, p + f.head, ret);
        else
            r = -WEBSOCKET_PROTOCOL;
    }
    return r;
}

void websocket_add(struct buf *b, enum websocket_kind kind, const void *data, size_t len) {
    unsigned char head[10] = {(unsigned char)(BIT_FIN | kind)};
    size_t bytes = len < LEN_16 ? 0 : len < 1u << 16 ? 2 : 8;

    head[1] = (unsigned char)(bytes == 0 ? len : bytes == 2 ? LEN_16 : LEN_64);
    for (size_t i = 0; i < bytes; i++)
        head[2 + i] = (unsigned char)(len >> 8 * (bytes - 1 - i));
    buf_add(b, head, 2 + bytes);
    if (len)
        buf_add(b, data, len);
}

void websocket_add_close(struct buf *b, unsigned code, const char *reason) {
    char body[WEBSOCKET_CONTROL_MAX];
    size_t len = strnlen(reason, sizeof body - 2);

    body[0] = (char)(code >> 8);
    body[1] = (char)code;
    memcpy(body + 2, reason, len);
    websocket_add(b, WEBSOCKET_CLOSE, body, len + 2);
}

/* 22 characters and "==" are 16 bytes. */
static bool is_key(const char *key) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    return strlen(key) == 24 && strspn(key, alphabet) == 22 && str_eq(key + 22, "==");
}

bool websocket_accept(const char *key, char out[static WEBSOCKET_ACCEPT_SIZE]) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(WEBSOCKET_ACCEPT_SIZE);
    unsigned char digest[SHA1_LEN];
    struct sha1 h;

    if (!is_key(key))
        return false;
    sha1_init(&h);
    sha1_add(&h, key, strlen(key));
    sha1_add(&h, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 36);
    sha1_end(&h, digest);
    base64_add(&text, digest, sizeof digest);
    if (!buf_ok(&text) || text.len >= WEBSOCKET_ACCEPT_SIZE)
        return false;
    memcpy(out, text.data, text.len + 1);
    return true;
}
