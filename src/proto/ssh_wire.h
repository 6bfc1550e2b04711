/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of SSH (RFC 4251, section 5) that agents use: byte, boolean, uint32, string. A reader that went wrong stays so and
 * reads nothing but zeros: ask ssh_end() once, after the last field.
 */
#pragma once

#include "base/macros.h"

struct buf;

struct ssh_bytes {
    const uint8_t *p;
    size_t len;
};

struct ssh_reader {
    const uint8_t *p;
    size_t left;
    bool bad;
};

static inline struct ssh_reader ssh_reader_of(const void *p, size_t len) {
    return (struct ssh_reader){.p = p, .left = len};
}

uint8_t ssh_get_u8(struct ssh_reader *r);
uint32_t ssh_get_u32(struct ssh_reader *r);
bool ssh_get_bool(struct ssh_reader *r); /* 0 or 1; RFC 4251 takes any byte for true, but no client sends one */
struct ssh_bytes ssh_get_string(struct ssh_reader *r);
bool ssh_end(const struct ssh_reader *r); /* all was there, and nothing is left */

bool ssh_is(struct ssh_bytes b, const char *text);
bool ssh_same(struct ssh_bytes a, struct ssh_bytes b);
bool ssh_ends(struct ssh_bytes b, const char *suffix);

void ssh_put_u32(struct buf *b, uint32_t v);
void ssh_put_string(struct buf *b, const void *p, size_t len);
