/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internet addresses and what they are for. A connection that a sandbox asked for by name must not end at this machine, in its
 * networks or at a cloud's metadata service just because a name server said so (ATTACKS 49-51), however the address is wrapped.
 */
#pragma once

#include "base/macros.h"

struct err;

enum { ADDR_TEXT_SIZE = 46, ADDR_INNER_MAX = 2 };

struct addr {
    uint8_t len; /* 4 or 16 */
    uint8_t b[16];
};

struct cidr {
    struct addr addr; /* the bits behind the prefix are zero */
    uint8_t bits;
};

enum addr_class {
    ADDR_PUBLIC,
    ADDR_UNSPECIFIED, /* 0.0.0.0/8, ::; Linux takes the first one for loopback */
    ADDR_LOOPBACK,
    ADDR_PRIVATE, /* RFC 1918 */
    ADDR_LINK_LOCAL,
    ADDR_CGNAT,    /* 100.64.0.0/10 */
    ADDR_METADATA, /* instance metadata of the clouds, wherever they put it */
    ADDR_MULTICAST,
    ADDR_BROADCAST,
    ADDR_DOCUMENTATION,
    ADDR_BENCHMARK,
    ADDR_RESERVED, /* not assigned, or to protocols only */
    ADDR_ULA,      /* fc00::/7 */
    ADDR_SITE_LOCAL,
    ADDR_TRANSLATED, /* a translation prefix whose inside cannot be read */
    ADDR_OWN,        /* one of this machine's own addresses */
    ADDR_CLASSES
};
extern const char *const addr_class_names[ADDR_CLASSES]; /* "a private address", for sentences */

/* Dotted decimal without leading zeros; colon form as RFC 4291 has it, without zone. Nothing else, and nothing around it. */
int addr_parse(const char *text, size_t len, struct addr *ret);
void addr_format(const struct addr *a, char out[static ADDR_TEXT_SIZE]);
bool addr_eq(const struct addr *a, const struct addr *b);

/* ::ffff:1.2.3.4 is 1.2.3.4 to the kernel: returns that; every other address comes back as it is. */
struct addr addr_unmapped(const struct addr *a);

/* The IPv4 addresses to which a tunnel or translator would carry this one (6to4, Teredo, NAT64, ...): how many there are. */
size_t addr_inner(const struct addr *a, struct addr ret[static ADDR_INNER_MAX]);

/* The IPv4 address in one behind a NAT64 prefix of so many bits (RFC 6052: 32, 40, 48, 56, 64 or 96; else false). */
bool addr_nat64_inner(const struct addr *a, unsigned bits, struct addr *ret);
/* The same for an unknown prefix of 96 bits that is filled up with zeros, as they are. */
bool addr_may_be_nat64(const struct addr *a, struct addr *ret);

struct addr_verdict {
    enum addr_class class;
    bool wrapped; /* the class is that of an IPv4 address inside */
    uint8_t bits; /* the block that has the class, as a prefix of the (unmapped) address: who allows more did not mean it */
};

/* own: n addresses of this machine, may be NULL. */
struct addr_verdict addr_classify(const struct addr *a, const struct addr *own, size_t n);

/* "10.0.0.0/8", "fc00::/7", or an address alone. Bits behind the prefix are an error: 10.0.0.1/8 is a slip. */
int cidr_parse(const char *text, size_t len, struct cidr *ret, struct err *err);
void cidr_format(const struct cidr *c, char out[static ADDR_TEXT_SIZE + 4]); /* without "/32", "/128" */
bool cidr_has(const struct cidr *c, const struct addr *a);                   /* false if the families differ */
struct addr addr_masked(const struct addr *a, unsigned bits);
