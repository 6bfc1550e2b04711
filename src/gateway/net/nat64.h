/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NAT64 prefixes of the host's network (RFC 7050): the name ipv4only.arpa has IPv4 addresses only, so an IPv6 answer for it is a
 * translator's, and shows its prefix. An address behind such a prefix is judged as the IPv4 address that it leads to, too: else a name
 * could lead to 10.0.0.5 or 169.254.169.254 by the provider's translator. Asked when an IPv6 address is to be dialled, and again after NAT64_S.
 */
#pragma once

#include "policy/host/host.h"

enum { NAT64_MAX = 8, NAT64_S = 600, NAT64_AGAIN_S = 30 };

struct nat64 {
    struct cidr prefixes[NAT64_MAX];
    size_t n;
    uint64_t until_ms; /* uv_now(); 0: not asked yet */
};

void nat64_name(struct host *ret); /* what to look up */
/* Takes its addresses: replaces what was known. */
void nat64_learn(struct nat64 *t, const struct addr *addrs, size_t n, uint64_t now_ms);
/* The lookup failed at once (SERVFAIL, REFUSED, no server): taken as no translator. What was known stays. */
void nat64_not_learned(struct nat64 *t, uint64_t now_ms);
/* The IPv4 address that a translator would carry this one to; false: none. */
bool nat64_inner(const struct nat64 *t, const struct addr *a, struct addr *ret);
/* One of them may be behind a prefix, and what is known is too old. */
bool nat64_is_needed(const struct nat64 *t, const struct addr *addrs, size_t n, uint64_t now_ms);
