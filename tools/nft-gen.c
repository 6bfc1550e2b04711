/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles the packet rules of a sandbox's network into netlink bytes: `nft-gen > nft_rules.h`. Runs on the build machine, so
 * that neither bawn nor bawn-init needs libnftnl, and a start costs one system call instead of the 5 ms of the nft program:
 *
 *     table inet bawn { chain in { type filter hook prerouting priority mangle; policy accept;
 *         @th,104,8 & (fin|syn|rst|ack) == syn  @nh,128,32 & 255.0.0.0 != 127.0.0.0  tproxy ip to :15001
 *         @th,104,8 & (fin|syn|rst|ack) == syn  @nh,192,128 != ::1  tproxy ip6 to :15001
 *     } }
 *
 * Only the first packet of a connection: the others find the accepted socket by its addresses, and pay for little. Each
 * expression costs a start some 2 us, so nothing is tested twice: tproxy itself passes on what is neither TCP nor UDP, what is of the
 * other family, and UDP, of which no transparent socket is on that port.
 * The last rule asks for an answer, which comes after the whole batch is in force. Netlink has the byte order of the machine: the
 * build machine's must be that of the target.
 */
#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "jail/network/network.h"

enum {
    BATCH_MAX = 8192,
    MESSAGE_MAX = 2048,
    PRIORITY_MANGLE = -150,
    TCP_FLAGS_AT = 13,
    TCP_FLAGS = 0x17, /* fin, syn, rst, ack */
    TCP_SYN = 0x02,
    IPV4_TO_AT = 16, /* the destination, in the header */
    IPV6_TO_AT = 24
};

static const char table_name[] = "bawn", chain_name[] = "in";

struct batch {
    char bytes[BATCH_MAX];
    size_t len;
    uint32_t seq;
};

static void *need(void *p) {
    if (!p) {
        fprintf(stderr, "nft-gen: out of memory\n");
        exit(1);
    }
    return p;
}

static char *next(struct batch *b) {
    if (b->len + MESSAGE_MAX > sizeof b->bytes) {
        fprintf(stderr, "nft-gen: more than %d bytes\n", BATCH_MAX);
        exit(1);
    }
    return b->bytes + b->len;
}

static void done(struct batch *b, const struct nlmsghdr *h) {
    b->len += MNL_ALIGN(h->nlmsg_len);
    b->seq++;
}

static void add_table(struct batch *b) {
    struct nftnl_table *t = need(nftnl_table_alloc());
    struct nlmsghdr *h = nftnl_nlmsg_build_hdr(next(b), NFT_MSG_NEWTABLE, NFPROTO_INET, NLM_F_CREATE, b->seq);

    nftnl_table_set_str(t, NFTNL_TABLE_NAME, table_name);
    nftnl_table_nlmsg_build_payload(h, t);
    nftnl_table_free(t);
    done(b, h);
}

static void add_chain(struct batch *b) {
    struct nftnl_chain *c = need(nftnl_chain_alloc());
    struct nlmsghdr *h = nftnl_nlmsg_build_hdr(next(b), NFT_MSG_NEWCHAIN, NFPROTO_INET, NLM_F_CREATE, b->seq);

    nftnl_chain_set_str(c, NFTNL_CHAIN_TABLE, table_name);
    nftnl_chain_set_str(c, NFTNL_CHAIN_NAME, chain_name);
    nftnl_chain_set_str(c, NFTNL_CHAIN_TYPE, "filter");
    nftnl_chain_set_u32(c, NFTNL_CHAIN_HOOKNUM, NF_INET_PRE_ROUTING);
    nftnl_chain_set_s32(c, NFTNL_CHAIN_PRIO, PRIORITY_MANGLE);
    nftnl_chain_set_u32(c, NFTNL_CHAIN_POLICY, NF_ACCEPT);
    nftnl_chain_nlmsg_build_payload(h, c);
    nftnl_chain_free(c);
    done(b, h);
}

/* The bytes at `at` of a header, through the mask, compared with value. */
static void header_test(struct nftnl_rule *r, uint32_t base, uint32_t at, uint32_t len, const void *mask, uint32_t op,
                        const void *value) {
    static const char zero[16];
    struct nftnl_expr *load = need(nftnl_expr_alloc("payload")), *and = need(nftnl_expr_alloc("bitwise")),
                      *cmp = need(nftnl_expr_alloc("cmp"));

    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_BASE, base);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_OFFSET, at);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_LEN, len);
    nftnl_expr_set_u32(load, NFTNL_EXPR_PAYLOAD_DREG, NFT_REG_1);
    nftnl_rule_add_expr(r, load);
    if (mask) {
        nftnl_expr_set_u32(and, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
        nftnl_expr_set_u32(and, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
        nftnl_expr_set_u32(and, NFTNL_EXPR_BITWISE_LEN, len);
        nftnl_expr_set(and, NFTNL_EXPR_BITWISE_MASK, mask, len);
        nftnl_expr_set(and, NFTNL_EXPR_BITWISE_XOR, zero, len);
        nftnl_rule_add_expr(r, and);
    } else {
        nftnl_expr_free(and);
    }
    nftnl_expr_set_u32(cmp, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    nftnl_expr_set_u32(cmp, NFTNL_EXPR_CMP_OP, op);
    nftnl_expr_set(cmp, NFTNL_EXPR_CMP_DATA, value, len);
    nftnl_rule_add_expr(r, cmp);
}

static void to_listener(struct nftnl_rule *r, uint32_t family) {
    struct nftnl_expr *port = need(nftnl_expr_alloc("immediate")), *tproxy = need(nftnl_expr_alloc("tproxy"));
    uint16_t value = htons(NETWORK_PORT);

    nftnl_expr_set_u32(port, NFTNL_EXPR_IMM_DREG, NFT_REG_1);
    nftnl_expr_set(port, NFTNL_EXPR_IMM_DATA, &value, sizeof value);
    nftnl_rule_add_expr(r, port);
    nftnl_expr_set_u32(tproxy, NFTNL_EXPR_TPROXY_FAMILY, family);
    nftnl_expr_set_u32(tproxy, NFTNL_EXPR_TPROXY_REG_PORT, NFT_REG_1);
    nftnl_rule_add_expr(r, tproxy);
}

static struct nftnl_rule *new_rule(void) {
    static const uint8_t flags = TCP_FLAGS, syn = TCP_SYN;
    struct nftnl_rule *r = need(nftnl_rule_alloc());

    nftnl_rule_set_str(r, NFTNL_RULE_TABLE, table_name);
    nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, chain_name);
    header_test(r, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_AT, 1, &flags, NFT_CMP_EQ, &syn);
    return r;
}

static void add_rule(struct batch *b, struct nftnl_rule *r, uint16_t flags) {
    struct nlmsghdr *h =
        nftnl_nlmsg_build_hdr(next(b), NFT_MSG_NEWRULE, NFPROTO_INET, (uint16_t)(NLM_F_CREATE | NLM_F_APPEND | flags), b->seq);

    nftnl_rule_nlmsg_build_payload(h, r);
    nftnl_rule_free(r);
    done(b, h);
}

static void add_rules(struct batch *b) {
    static const uint8_t mask4[4] = {0xff}, loopback4[4] = {127};
    static const struct in6_addr loopback6 = IN6ADDR_LOOPBACK_INIT;
    struct nftnl_rule *r = new_rule();

    header_test(r, NFT_PAYLOAD_NETWORK_HEADER, IPV4_TO_AT, sizeof loopback4, mask4, NFT_CMP_NEQ, loopback4);
    to_listener(r, NFPROTO_IPV4);
    add_rule(b, r, 0);
    r = new_rule();
    header_test(r, NFT_PAYLOAD_NETWORK_HEADER, IPV6_TO_AT, sizeof loopback6, NULL, NFT_CMP_NEQ, &loopback6);
    to_listener(r, NFPROTO_IPV6);
    add_rule(b, r, NLM_F_ACK);
}

int main(void) {
    static struct batch b = {.seq = 1};

    done(&b, nftnl_batch_begin(next(&b), b.seq));
    add_table(&b);
    add_chain(&b);
    add_rules(&b);
    done(&b, nftnl_batch_end(next(&b), b.seq));
    printf("/* Made by tools/nft-gen.c. */\n#pragma once\n\n"
           "static const unsigned char nft_rules[%zu] __attribute__((aligned(4))) = {",
           b.len);
    for (size_t i = 0; i < b.len; i++)
        printf("%s%u,", i % 24 ? "" : "\n    ", (unsigned char)b.bytes[i]);
    printf("\n};\n");
    return 0;
}
