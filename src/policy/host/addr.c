/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and networks: parsed, compared, written. */
#include "policy/host/addr.h"

#include <arpa/inet.h>
#include <errno.h>

#include "base/err.h"

/* inet_pton() would take digits of other kinds nowhere, but it is one thing less to trust. */
static bool parse_v4(const char *text, size_t len, uint8_t out[static 4]) {
    size_t at = 0;

    for (int i = 0; i < 4; i++) {
        unsigned v = 0;
        size_t start;

        if (i && (at >= len || text[at++] != '.'))
            return false;
        for (start = at; at < len && at - start < 3 && text[at] >= '0' && text[at] <= '9'; at++)
            v = v * 10 + (unsigned)(text[at] - '0');
        if (at == start || v > 255 || (at - start > 1 && text[start] == '0'))
            return false;
        out[i] = (uint8_t)v;
    }
    return at == len;
}

static bool parse_v6(const char *text, size_t len, uint8_t out[static 16]) {
    char copy[ADDR_TEXT_SIZE];

    if (len >= sizeof copy)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!text[i] || !strchr("0123456789abcdefABCDEF:.", text[i]))
            return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    return inet_pton(AF_INET6, copy, out) == 1;
}

int addr_parse(const char *text, size_t len, struct addr *ret) {
    struct addr a = {0};

    if (parse_v4(text, len, a.b))
        a.len = 4;
    else if (memchr(text, ':', len) && parse_v6(text, len, a.b))
        a.len = 16;
    else
        return -EINVAL;
    *ret = a;
    return 0;
}

void addr_format(const struct addr *a, char out[static ADDR_TEXT_SIZE]) {
    if (!inet_ntop(a->len == 4 ? AF_INET : AF_INET6, a->b, out, ADDR_TEXT_SIZE))
        BUG("an address that does not fit its own text");
}

bool addr_eq(const struct addr *a, const struct addr *b) {
    return a->len == b->len && memcmp(a->b, b->b, a->len) == 0;
}

struct addr addr_masked(const struct addr *a, unsigned bits) {
    struct addr m = {.len = a->len};

    for (unsigned i = 0; i < a->len; i++)
        m.b[i] = bits >= 8 * (i + 1) ? a->b[i] : bits <= 8 * i ? 0 : (uint8_t)(a->b[i] & 0xff00 >> (bits - 8 * i));
    return m;
}

bool cidr_has(const struct cidr *c, const struct addr *a) {
    struct addr m = addr_masked(a, c->bits);

    return addr_eq(&m, &c->addr);
}

int cidr_parse(const char *text, size_t len, struct cidr *ret, struct err *err) {
    const char *slash = memchr(text, '/', len);
    size_t n = slash ? (size_t)(slash - text) : len, digits = slash ? len - n - 1 : 0;
    struct cidr c = {0};
    struct addr m;
    unsigned bits = 0;

    if (addr_parse(text, n, &c.addr) < 0)
        return err_set(err, -EINVAL, "this is not an address (write 192.0.2.1 or 2001:db8::1, without leading zeros)");
    for (size_t i = 0; i < digits && i < 4; i++) {
        char d = text[n + 1 + i];

        bits = d >= '0' && d <= '9' && !(i && text[n + 1] == '0') ? bits * 10 + (unsigned)(d - '0') : 1000;
    }
    if (!slash)
        bits = 8u * c.addr.len;
    if ((slash && (digits == 0 || digits > 3)) || bits > 8u * c.addr.len)
        return err_set(err, -EINVAL, "the number behind '/' must be from 0 to %u", 8u * c.addr.len);
    m = addr_masked(&c.addr, bits);
    if (!addr_eq(&m, &c.addr)) {
        char meant[ADDR_TEXT_SIZE];

        addr_format(&m, meant);
        return err_set(err, -EINVAL, "the address has bits behind its prefix (did you mean %s/%u?)", meant, bits);
    }
    c.bits = (uint8_t)bits;
    *ret = c;
    return 0;
}

void cidr_format(const struct cidr *c, char out[static ADDR_TEXT_SIZE + 4]) {
    addr_format(&c->addr, out);
    if (c->bits != 8 * c->addr.len)
        snprintf(out + strlen(out), 5, "/%u", (unsigned)c->bits);
}
