/* SPDX-License-Identifier: Apache-2.0 */
/* Reads DNS queries. */
#include "proto/dns.h"

#include <errno.h>

#include "proto/cursor.h"

enum {
    FLAG_QR = 0x8000,
    FLAG_OPCODE = 0x7800,
    FLAG_TC = 0x0200,
    FLAG_RD = 0x0100,
    FLAG_CD = 0x0010,
    OPCODE_SHIFT = 11,
    OPT_FIXED = 11 /* root name, type, class, ttl, length */
};

static uint16_t get16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

static bool is_odd(uint8_t c) {
    return c <= 0x20 || c == 0x7f || c == '.';
}

static bool add_label(struct dns_query *q, const uint8_t *label, size_t len) {
    size_t dot = q->name_len ? 1 : 0;

    if (q->name_len + dot + len > DNS_NAME_MAX)
        return false;
    if (dot)
        q->name[q->name_len++] = '.';
    for (size_t i = 0; i < len; i++) {
        q->odd |= is_odd(label[i]);
        q->name[q->name_len++] = (char)(is_odd(label[i]) ? '?' : label[i]);
    }
    return true;
}

/* A length byte above 63 is a compression pointer or an obsolete kind of label. */
static bool take_name(struct cursor *c, struct dns_query *q) {
    for (;;) {
        const uint8_t *len = cursor_skip(c, 1), *label;

        if (!len || *len > DNS_LABEL_MAX)
            return false;
        if (*len == 0)
            return true;
        label = cursor_skip(c, *len);
        if (!label || !add_label(q, label, *len))
            return false;
    }
}

static bool take_question(struct cursor *c, struct dns_query *q) {
    const char *start = c->p;
    const uint8_t *fixed;

    if (!take_name(c, q))
        return false;
    fixed = cursor_skip(c, 4);
    if (!fixed)
        return false;
    q->type = get16(fixed);
    q->class = get16(fixed + 2);
    q->question = (const uint8_t *)start;
    q->question_len = (size_t)(c->p - start);
    return true;
}

/* What the options say does not matter here (cookies, padding, client subnet), but they must be whole. */
static bool options_ok(struct cursor c) {
    while (c.left) {
        const uint8_t *head = cursor_skip(&c, 4);

        if (!head || !cursor_skip(&c, get16(head + 2)))
            return false;
    }
    return true;
}

static int take_opt(struct cursor *c, struct dns_query *q) {
    const uint8_t *opt = cursor_skip(c, OPT_FIXED), *data;
    uint16_t len;

    if (!opt || opt[0] != 0 || get16(opt + 1) != DNS_TYPE_OPT)
        return DNS_FORMERR;
    len = get16(opt + 9);
    data = cursor_skip(c, len);
    if (!data || !options_ok((struct cursor){(const char *)data, len}))
        return DNS_FORMERR;
    q->edns = true;
    q->payload = MAX_OF(get16(opt + 3), DNS_PLAIN_MAX);
    return opt[6] == 0 ? DNS_NOERROR : DNS_BADVERS;
}

static int read_sections(struct cursor *c, const uint8_t *header, struct dns_query *q) {
    unsigned additional = get16(header + 10);
    int r = DNS_NOERROR;

    if (get16(header + 2) & FLAG_TC || get16(header + 4) != 1 || get16(header + 6) || get16(header + 8) || additional > 1)
        return DNS_FORMERR;
    if (!take_question(c, q))
        return DNS_FORMERR;
    if (additional)
        r = take_opt(c, q);
    return c->left ? DNS_FORMERR : r;
}

int dns_query_parse(const uint8_t *data, size_t len, struct dns_query *ret) {
    struct dns_query q = {.payload = DNS_PLAIN_MAX};
    struct cursor c = {(const char *)data, len};
    const uint8_t *header = cursor_skip(&c, DNS_HEADER_SIZE);
    uint16_t flags;
    int r;

    if (!header || get16(header + 2) & FLAG_QR)
        return -EBADMSG;
    flags = get16(header + 2);
    q.id = get16(header);
    q.opcode = (uint8_t)((flags & FLAG_OPCODE) >> OPCODE_SHIFT);
    q.rd = flags & FLAG_RD;
    q.cd = flags & FLAG_CD;
    if (q.opcode != 0)
        r = DNS_NOTIMP;
    else if (len > DNS_QUERY_MAX)
        r = DNS_FORMERR;
    else
        r = read_sections(&c, header, &q);
    *ret = q;
    return r;
}

int dns_frame(const uint8_t *data, size_t len) {
    size_t message = len >= 2 ? get16(data) : 0;

    if (len < 2)
        return 0;
    if (message < DNS_HEADER_SIZE || message > DNS_QUERY_MAX)
        return -EBADMSG;
    return len - 2 >= message ? (int)message : 0;
}

static bool ends_with(const char *name, size_t len, const char *end, size_t *ret_left) {
    size_t n = strlen(end);

    if (len <= n || memcmp(name + len - n, end, n) != 0)
        return false;
    *ret_left = len - n;
    return true;
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t reverse_ipv4(const char *name, size_t len, uint8_t *ret) {
    size_t at = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = 0;
        size_t start;

        if (i && (at >= len || name[at++] != '.'))
            return 0;
        for (start = at; at < len && at - start < 3 && name[at] >= '0' && name[at] <= '9'; at++)
            value = value * 10 + digit(name[at]);
        if (at == start || value > 255 || (at - start > 1 && name[start] == '0'))
            return 0;
        ret[3 - i] = (uint8_t)value;
    }
    return at == len ? 4 : 0;
}

static size_t reverse_ipv6(const char *name, size_t len, uint8_t *ret) {
    if (len != 2 * 32 - 1)
        return 0;
    for (size_t i = 0; i < 32; i++) {
        int value = digit(name[2 * i]);

        if (value < 0 || (i < 31 && name[2 * i + 1] != '.'))
            return 0;
        if (i % 2 == 0)
            ret[15 - i / 2] = (uint8_t)value;
        else
            ret[15 - i / 2] |= (uint8_t)(value << 4);
    }
    return 16;
}

size_t dns_reverse_parse(const char *name, size_t len, uint8_t ret[static 16]) {
    uint8_t addr[16];
    size_t left, n = 0;

    if (ends_with(name, len, ".in-addr.arpa", &left))
        n = reverse_ipv4(name, left, addr);
    else if (ends_with(name, len, ".ip6.arpa", &left))
        n = reverse_ipv6(name, left, addr);
    memcpy(ret, addr, n);
    return n;
}
