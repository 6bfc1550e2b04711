/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are public. */
#include "policy/host/addr.h"

const char *const addr_class_names[ADDR_CLASSES] = {
    [ADDR_PUBLIC] = "a public address",
    [ADDR_UNSPECIFIED] = "the unspecified address",
    [ADDR_LOOPBACK] = "a loopback address",
    [ADDR_PRIVATE] = "a private address",
    [ADDR_LINK_LOCAL] = "a link-local address",
    [ADDR_CGNAT] = "an address behind the provider's NAT",
    [ADDR_METADATA] = "a cloud metadata address",
    [ADDR_MULTICAST] = "a multicast address",
    [ADDR_BROADCAST] = "the broadcast address",
    [ADDR_DOCUMENTATION] = "an address for documentation",
    [ADDR_BENCHMARK] = "an address for benchmarks",
    [ADDR_RESERVED] = "a reserved address",
    [ADDR_ULA] = "a private address (unique local)",
    [ADDR_SITE_LOCAL] = "a private address (site-local)",
    [ADDR_TRANSLATED] = "an address of a local translator",
    [ADDR_OWN] = "an address of this machine",
};

struct block {
    uint8_t b[16];
    uint8_t bits;
    enum addr_class class;
};

/* The first block that holds the address counts. IANA's special-purpose registries, and what the clouds took on their own, each with who
 * says so ("ci": doc/rtd/reference/datasources and cloudinit/sources of canonical/cloud-init). */
static const struct block v4[] = {
    {{169, 254, 169, 254}, 32, ADDR_METADATA}, /* AWS, Google, Azure, DigitalOcean, Hetzner, Vultr, IBM, OpenStack, ... (ci) */
    {{169, 254, 169, 252},
     32,
     ADDR_METADATA}, /* Google: GKE's metadata server behind its NAT (cloud.google.com, Workload Identity) */
    {{169, 254, 170, 2}, 32, ADDR_METADATA},   /* AWS: credentials of ECS tasks (docs.aws.amazon.com, task IAM roles) */
    {{169, 254, 170, 23}, 32, ADDR_METADATA},  /* AWS: credentials of EKS pods (docs.aws.amazon.com, Pod Identity) */
    {{169, 254, 42, 42}, 32, ADDR_METADATA},   /* Scaleway (ci: scaleway.rst) */
    {{169, 254, 0, 23}, 32, ADDR_METADATA},    /* Tencent: metadata.tencentyun.com (DataDog/datadog-agent, tencent.go) */
    {{100, 100, 100, 200}, 32, ADDR_METADATA}, /* Alibaba (ci: aliyun.rst) */
    {{168, 63, 129, 16}, 32, ADDR_METADATA}, /* Azure's wire server: public by its number (learn.microsoft.com, 168.63.129.16) */
    {{192, 0, 0, 192}, 32, ADDR_METADATA},   /* Oracle Classic (docs.oracle.com, instance metadata) */
    {{77, 221, 156, 49}, 32, ADDR_METADATA}, /* Aeza: public, and answers by who asks (ci: aeza.rst) */
    {{0}, 8, ADDR_UNSPECIFIED},
    {{127}, 8, ADDR_LOOPBACK},
    {{10}, 8, ADDR_PRIVATE},
    {{172, 16}, 12, ADDR_PRIVATE},
    {{192, 168}, 16, ADDR_PRIVATE},
    {{169, 254}, 16, ADDR_LINK_LOCAL},
    {{100, 64}, 10, ADDR_CGNAT},
    {{192, 0, 2}, 24, ADDR_DOCUMENTATION},
    {{198, 51, 100}, 24, ADDR_DOCUMENTATION},
    {{203, 0, 113}, 24, ADDR_DOCUMENTATION},
    {{198, 18}, 15, ADDR_BENCHMARK},
    {{192, 0, 0}, 24, ADDR_RESERVED},
    {{192, 88, 99}, 24, ADDR_RESERVED}, /* the 6to4 relays that were */
    {{224}, 4, ADDR_MULTICAST},
    {{255, 255, 255, 255}, 32, ADDR_BROADCAST},
    {{240}, 4, ADDR_RESERVED},
};

static const struct block v6[] = {
    {{0xfd, 0, 0x0e, 0xc2},
     32,
     ADDR_METADATA}, /* AWS: ::254 metadata, ::23 EKS pods, name and time servers (docs.aws.amazon.com) */
    {{0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54},
     128,
     ADDR_METADATA}, /* Google (cloud.google.com, IPv6-only) */
    {{0xfd, 0, 0, 0xc1, 0, 0, 0, 0, 0, 0, 0, 0, 0xa9, 0xfe, 0xa9, 0xfe},
     128,
     ADDR_METADATA}, /* Oracle (ci: DataSourceOracle.py) */
    {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa9, 0xfe, 0xa9, 0xfe},
     128,
     ADDR_METADATA},                                                                 /* OpenStack (docs.openstack.org, neutron) */
    {{0xfd, 0, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x42}, 128, ADDR_METADATA}, /* Scaleway (ci: scaleway.rst) */
    {{0xfd, 0, 0xa9, 0xfe, 0xa9, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01},
     128,
     ADDR_METADATA},                                                                    /* Akamai, Linode (ci: akamai.rst) */
    {{0xfd, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0, 0x02, 0}, 128, ADDR_METADATA}, /* Alibaba (ci: tests of aliyun) */
    {{0}, 128, ADDR_UNSPECIFIED},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, ADDR_LOOPBACK},
    {{0xfe, 0x80}, 10, ADDR_LINK_LOCAL},
    {{0xfe, 0xc0}, 10, ADDR_SITE_LOCAL},
    {{0xfc}, 7, ADDR_ULA},
    {{0xff}, 8, ADDR_MULTICAST},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, ADDR_DOCUMENTATION},
    {{0x3f, 0xff}, 20, ADDR_DOCUMENTATION},
    {{0x20, 0x01, 0, 0x02}, 48, ADDR_BENCHMARK},
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 48, ADDR_TRANSLATED},
};

static const struct block v6_global = {{0x20}, 3, ADDR_PUBLIC}; /* all that was ever given out */
static const struct block v6_protocols = {{0x20, 0x01}, 23, ADDR_RESERVED};

/* IPv4 in IPv6, by where it stands. Teredo also turns over the bits of the client's address. */
static const struct wrap {
    uint8_t prefix[16];
    uint8_t bits, at;
    bool inverted;
} wraps[] = {
    {{0}, 96, 12, false},                                        /* IPv4-compatible */
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12, false}, /* IPv4-mapped */
    {{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 12, false},       /* IPv4-translated (SIIT) */
    {{0x20, 0x02}, 16, 2, false},                                /* 6to4 */
    {{0x20, 0x01, 0, 0}, 32, 4, false},                          /* Teredo: server */
    {{0x20, 0x01, 0, 0}, 32, 12, true},                          /* Teredo: client */
    {{0, 0x64, 0xff, 0x9b}, 96, 12, false},                      /* NAT64 */
    {{0, 0x64, 0xff, 0x9b, 0, 1}, 96, 12, false},                /* NAT64 with a local prefix, in its usual place */
};

static bool prefix_matches(const uint8_t *prefix, unsigned bits, const struct addr *a) {
    struct cidr c = {{.len = a->len}, (uint8_t)bits};

    memcpy(c.addr.b, prefix, a->len);
    return cidr_has(&c, a);
}

static bool in_block(const struct block *k, const struct addr *a) {
    return prefix_matches(k->b, k->bits, a);
}

/* ISATAP has the address in the interface identifier, behind any prefix: 0:5efe or 200:5efe. */
static bool is_isatap(const struct addr *a) {
    return (a->b[8] & 0xfd) == 0 && a->b[9] == 0 && a->b[10] == 0x5e && a->b[11] == 0xfe;
}

static void add_inner(const struct addr *a, size_t at, bool inverted, struct addr *ret) {
    ret->len = 4;
    for (size_t i = 0; i < 4; i++)
        ret->b[i] = inverted ? (uint8_t)~a->b[at + i] : a->b[at + i];
}

bool addr_nat64_inner(const struct addr *a, unsigned bits, struct addr *ret) {
    static const struct {
        uint8_t bits, at[4];
    } places[] = {{32, {4, 5, 6, 7}},   {40, {5, 6, 7, 9}},    {48, {6, 7, 9, 10}},
                  {56, {7, 9, 10, 11}}, {64, {9, 10, 11, 12}}, {96, {12, 13, 14, 15}}};

    for (size_t i = 0; a->len == 16 && i < ARRAY_LEN(places); i++)
        if (places[i].bits == bits) {
            *ret = (struct addr){.len = 4};
            for (size_t k = 0; k < 4; k++)
                ret->b[k] = a->b[places[i].at[k]];
            return true;
        }
    return false;
}

bool addr_may_be_nat64(const struct addr *a, struct addr *ret) {
    static const uint8_t zero[4];

    return a->len == 16 && memcmp(a->b + 8, zero, sizeof zero) == 0 && addr_nat64_inner(a, 96, ret);
}

size_t addr_inner(const struct addr *a, struct addr ret[static ADDR_INNER_MAX]) {
    static const struct block plain = {{0}, 120, ADDR_PUBLIC}; /* ::, ::1 and their like are addresses of their own */
    size_t n = 0;

    if (a->len != 16 || in_block(&plain, a))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(wraps) && n < ADDR_INNER_MAX; i++)
        if (prefix_matches(wraps[i].prefix, wraps[i].bits, a))
            add_inner(a, wraps[i].at, wraps[i].inverted, &ret[n++]);
    if (n == 0 && is_isatap(a))
        add_inner(a, 12, false, &ret[n++]);
    return n;
}

struct addr addr_unmapped(const struct addr *a) {
    struct addr inner = {.len = 4};

    if (a->len != 16 || !prefix_matches(wraps[1].prefix, 96, a))
        return *a;
    memcpy(inner.b, a->b + 12, 4);
    return inner;
}

static struct addr_verdict by_tables(const struct addr *a) {
    const struct block *blocks = a->len == 4 ? v4 : v6;
    size_t n = a->len == 4 ? ARRAY_LEN(v4) : ARRAY_LEN(v6);

    for (size_t i = 0; i < n; i++)
        if (in_block(&blocks[i], a))
            return (struct addr_verdict){blocks[i].class, false, blocks[i].bits};
    if (a->len == 16 && !in_block(&v6_global, a))
        return (struct addr_verdict){ADDR_RESERVED, false, 128};
    if (a->len == 16 && in_block(&v6_protocols, a))
        return (struct addr_verdict){ADDR_RESERVED, false, v6_protocols.bits};
    return (struct addr_verdict){ADDR_PUBLIC, false, 0};
}

static bool is_own(const struct addr *a, const struct addr *own, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct addr o = addr_unmapped(&own[i]);

        if (addr_eq(&o, a))
            return true;
    }
    return false;
}

/* An operator's own NAT64 prefix of 96 bits looks like any other network. Where nothing stands between the network's number and four bytes
 * that are an address of this machine or of a private network, they are taken for that: hosts are not numbered so by chance. */
static enum addr_class behind_nat64(const struct addr *a, const struct addr *own, size_t n_own) {
    static const bool counts[ADDR_CLASSES] = {
        [ADDR_LOOPBACK] = true, [ADDR_PRIVATE] = true, [ADDR_LINK_LOCAL] = true, [ADDR_CGNAT] = true, [ADDR_METADATA] = true};
    struct addr inner;
    enum addr_class class;

    if (!addr_may_be_nat64(a, &inner))
        return ADDR_PUBLIC;
    class = by_tables(&inner).class;
    return counts[class] ? class : is_own(&inner, own, n_own) ? ADDR_OWN : ADDR_PUBLIC;
}

struct addr_verdict addr_classify(const struct addr *given, const struct addr *own, size_t n_own) {
    struct addr a = addr_unmapped(given), inner[ADDR_INNER_MAX];
    struct addr_verdict v = by_tables(&a);
    size_t n = addr_inner(&a, inner);

    if (is_own(&a, own, n_own))
        return v.class == ADDR_METADATA || v.class == ADDR_LOOPBACK
                   ? v
                   : (struct addr_verdict){ADDR_OWN, false, (uint8_t)(8 * a.len)};
    for (size_t i = 0; i < n; i++) {
        struct addr_verdict w = is_own(&inner[i], own, n_own) ? (struct addr_verdict){ADDR_OWN, true, 0} : by_tables(&inner[i]);

        if (w.class != ADDR_PUBLIC)
            return (struct addr_verdict){w.class, true, 128};
    }
    /* A translator's prefix in front of a public address is as public as that address. */
    if (n && !is_isatap(&a) && (v.class == ADDR_RESERVED || v.class == ADDR_TRANSLATED))
        return (struct addr_verdict){ADDR_PUBLIC, true, 0};
    if (v.class == ADDR_PUBLIC && n == 0 && behind_nat64(&a, own, n_own) != ADDR_PUBLIC)
        return (struct addr_verdict){behind_nat64(&a, own, n_own), true, 128};
    return v;
}
