/* SPDX-License-Identifier: Apache-2.0 */
/* NAT64 prefixes of the network. */
#include "gateway/net/nat64.h"

static const uint8_t lengths[] = {96, 64, 56, 48, 40, 32};

void nat64_name(struct host *ret) {
    static const char name[] = "ipv4only.arpa";

    *ret = (struct host){.kind = HOST_NAME, .len = sizeof name - 1};
    memcpy(ret->text, name, sizeof name);
}

/* 192.0.0.170 and 192.0.0.171 are what the name has. */
static bool is_well_known(const struct addr *a) {
    static const uint8_t first[] = {192, 0, 0, 170}, second[] = {192, 0, 0, 171};

    return memcmp(a->b, first, 4) == 0 || memcmp(a->b, second, 4) == 0;
}

static void add_prefix(struct nat64 *t, const struct addr *a, uint8_t bits) {
    struct cidr c = {addr_masked(a, bits), bits};

    for (size_t i = 0; i < t->n; i++)
        if (t->prefixes[i].bits == bits && addr_eq(&t->prefixes[i].addr, &c.addr))
            return;
    if (t->n < NAT64_MAX)
        t->prefixes[t->n++] = c;
}

void nat64_learn(struct nat64 *t, const struct addr *addrs, size_t n, uint64_t now_ms) {
    struct addr inner;

    *t = (struct nat64){.until_ms = now_ms + (uint64_t)NAT64_S * 1000};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof lengths; k++)
            if (addr_nat64_inner(&addrs[i], lengths[k], &inner) && is_well_known(&inner))
                add_prefix(t, &addrs[i], lengths[k]);
}

bool nat64_inner(const struct nat64 *t, const struct addr *a, struct addr *ret) {
    for (size_t i = 0; i < t->n; i++)
        if (cidr_has(&t->prefixes[i], a) && addr_nat64_inner(a, t->prefixes[i].bits, ret))
            return true;
    return false;
}

void nat64_not_learned(struct nat64 *t, uint64_t now_ms) {
    t->until_ms = now_ms + (uint64_t)NAT64_AGAIN_S * 1000;
}

/* No translator has a prefix in these. */
static bool may_be_translated(const struct addr *a) {
    struct addr u = addr_unmapped(a);
    enum addr_class class = addr_classify(&u, NULL, 0).class;

    return u.len == 16 && class != ADDR_LOOPBACK && class != ADDR_LINK_LOCAL && class != ADDR_UNSPECIFIED &&
           class != ADDR_MULTICAST;
}

bool nat64_is_needed(const struct nat64 *t, const struct addr *addrs, size_t n, uint64_t now_ms) {
    for (size_t i = 0; i < n && t->until_ms <= now_ms; i++)
        if (may_be_translated(&addrs[i]))
            return true;
    return false;
}
