/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the byte link. Numbers are little-endian, whatever the machines are. */
#include "proto/link/linkmsg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char magic[8] = {'b', 'a', 'w', 'n', 'l', 'i', 'n', 'k'};

static void put16(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v) {
    put16(p, v);
    put16(p + 2, v >> 16);
}

static uint32_t get16(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p) {
    return get16(p) | get16(p + 2) << 16;
}

void link_hello_encode(const struct link_hello *h, uint8_t out[static LINK_HELLO]) {
    memcpy(out, magic, sizeof magic);
    put32(out + 8, h->version);
    put32(out + 12, h->role);
}

int link_hello_decode(const uint8_t in[static LINK_HELLO], struct link_hello *ret) {
    uint32_t role = get32(in + 12);

    if (memcmp(in, magic, sizeof magic) != 0 || (role != LINK_NEAR && role != LINK_FAR))
        return -EBADMSG;
    *ret = (struct link_hello){.version = get32(in + 8), .role = (enum link_role)role};
    return 0;
}

/* The lengths that a frame may have. */
static const struct {
    uint32_t min, max;
} lengths[LINK_TYPES + 1] = {
    [LINK_OPEN] = {LINK_OPEN_SIZE, LINK_OPEN_SIZE},
    [LINK_DATA] = {1, LINK_PAYLOAD_MAX},
    [LINK_CREDIT] = {4, 4},
    [LINK_END] = {4, 4},
    [LINK_TTY] = {LINK_TTY_BYTES, LINK_TTY_BYTES},
    [LINK_BYE] = {0, LINK_SMALL_MAX},
};

void link_header_encode(const struct link_header *h, uint8_t out[static LINK_HEADER]) {
    put16(out, h->type);
    put16(out + 2, h->channel);
    put32(out + 4, h->len);
}

int link_header_decode(const uint8_t in[static LINK_HEADER], struct link_header *ret) {
    uint32_t type = get16(in), channel = get16(in + 2), len = get32(in + 4);

    if (type < 1 || type > LINK_TYPES || channel >= LINK_CHANNELS || len < lengths[type].min || len > lengths[type].max)
        return -EBADMSG;
    if (channel != 0 && (type == LINK_PING || type == LINK_PONG || type == LINK_BYE)) /* they concern the whole link */
        return -EBADMSG;
    *ret = (struct link_header){.type = (enum link_type)type, .channel = (uint16_t)channel, .len = len};
    return 0;
}

void link_addr_encode(const struct link_addr *a, uint8_t out[static LINK_ADDR]) {
    out[0] = a->family;
    out[1] = 0;
    put16(out + 2, a->port);
    memcpy(out + 4, a->ip, sizeof a->ip);
}

int link_addr_decode(const uint8_t in[static LINK_ADDR], struct link_addr *ret) {
    if ((in[0] != 0 && in[0] != 4 && in[0] != 6) || in[1] != 0)
        return -EBADMSG;
    ret->family = in[0];
    ret->port = (uint16_t)get16(in + 2);
    memcpy(ret->ip, in + 4, sizeof ret->ip);
    return 0;
}

void link_open_encode(const struct link_open *o, uint8_t out[static LINK_OPEN_SIZE]) {
    put16(out, o->kind);
    put16(out + 2, o->place);
    put32(out + 4, o->mode);
    put32(out + 8, (uint32_t)o->size);
    put32(out + 12, (uint32_t)(o->size >> 32));
    link_addr_encode(&o->to, out + 16);
    link_addr_encode(&o->from, out + 16 + LINK_ADDR);
}

int link_open_decode(const uint8_t in[static LINK_OPEN_SIZE], struct link_open *ret) {
    struct link_open o = {
        .place = (uint16_t)get16(in + 2), .mode = get32(in + 4), .size = get32(in + 8) | (uint64_t)get32(in + 12) << 32};
    uint32_t kind = get16(in);

    if (kind < 1 || kind > LINK_KINDS || o.place >= LINK_PLACES || o.mode > 07777)
        return -EBADMSG;
    o.kind = (enum link_kind)kind;
    if (link_addr_decode(in + 16, &o.to) < 0 || link_addr_decode(in + 16 + LINK_ADDR, &o.from) < 0)
        return -EBADMSG;
    *ret = o;
    return 0;
}

void link_tty_encode(const struct link_tty *t, uint8_t out[static LINK_TTY_BYTES]) {
    put32(out, t->what);
    for (int i = 0; i < 4; i++) {
        put16(out + 4 + 2 * i, t->size[i]);
        put32(out + 12 + 4 * i, t->modes[i]);
    }
    memcpy(out + 28, t->cc, sizeof t->cc);
}

int link_tty_decode(const uint8_t in[static LINK_TTY_BYTES], struct link_tty *ret) {
    uint32_t what = get32(in);

    if (what != LINK_TTY_SIZE && what != LINK_TTY_MODES)
        return -EBADMSG;
    ret->what = (enum link_tty_what)what;
    for (int i = 0; i < 4; i++) {
        ret->size[i] = (uint16_t)get16(in + 4 + 2 * i);
        ret->modes[i] = get32(in + 12 + 4 * i);
    }
    memcpy(ret->cc, in + 28, sizeof ret->cc);
    return 0;
}

size_t link_message_head(const uint16_t *channels, size_t n, uint8_t out[static LINK_MESSAGE_HEAD]) {
    out[0] = (uint8_t)n;
    for (size_t i = 0; i < n; i++)
        put16(out + 1 + 2 * i, channels[i]);
    return 1 + 2 * n;
}

int link_message_decode(const uint8_t *in, size_t len, struct link_message *ret) {
    size_t n = len ? in[0] : 0;

    if (len < 1 || n > LINK_CONTROL_FDS || len < 1 + 2 * n)
        return -EBADMSG;
    *ret = (struct link_message){.n_channels = n, .bytes = in + 1 + 2 * n, .len = len - 1 - 2 * n};
    for (size_t i = 0; i < n; i++) {
        ret->channels[i] = (uint16_t)get16(in + 1 + 2 * i);
        if (ret->channels[i] >= LINK_CHANNELS)
            return -EBADMSG;
    }
    return 0;
}

void link_start_encode(const struct link_start *s, uint8_t out[static LINK_START_SIZE]) {
    put32(out, s->flags);
    put32(out + 4, s->stdio);
    memcpy(out + 8, s->shown, sizeof s->shown);
}

int link_start_decode(const uint8_t *in, size_t len, struct link_start *ret) {
    struct link_start s;

    if (len != LINK_START_SIZE)
        return -EBADMSG;
    s.flags = get32(in);
    s.stdio = get32(in + 4);
    memcpy(s.shown, in + 8, sizeof s.shown);
    for (size_t i = 0; i < LINK_PLACES_SHOWN; i++)
        if (!memchr(s.shown[i], 0, LINK_PATH_MAX) || (s.shown[i][0] && s.shown[i][0] != '/'))
            return -EBADMSG;
    if (s.flags & ~(uint32_t)LINK_START_NETWORK || s.stdio > 7)
        return -EBADMSG;
    *ret = s;
    return 0;
}

void link_started_encode(const struct link_started *s, uint8_t out[static LINK_STARTED_SIZE]) {
    put32(out, s->error);
    put32(out + 4, s->places);
    memcpy(out + 8, s->why, sizeof s->why);
}

int link_started_decode(const uint8_t *in, size_t len, struct link_started *ret) {
    if (len != LINK_STARTED_SIZE || in[LINK_STARTED_SIZE - 1] != 0)
        return -EBADMSG;
    ret->error = get32(in);
    ret->places = get32(in + 4);
    memcpy(ret->why, in + 8, sizeof ret->why);
    return ret->error > 4095 ? -EBADMSG : 0;
}
