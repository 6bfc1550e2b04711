/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gVisor's packet rules, which are those of iptables: one table for NAT, with one rule. It sends every TCP connection to NETWORK_PORT, but for those to
 * loopback. gVisor has neither nftables nor tproxy, so the accepted socket is asked for the address before the rule (SO_ORIGINAL_DST).
 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netfilter_ipv4/ip_tables.h>

#include "jail/network/network.h"
#include "os/fd.h"

enum {
    LOOPBACK_NET = 127,
    NAT_TO_PORTS = 2,
    HOOKS = 1 << NF_INET_PRE_ROUTING | 1 << NF_INET_LOCAL_IN | 1 << NF_INET_LOCAL_OUT | 1 << NF_INET_POST_ROUTING
};

/* The kernel's own (struct ipt_replace, ipt_entry, xt_entry_target, nf_nat_ipv4_range), without the arrays of no length at their ends. */
struct redirect_head {
    char name[XT_TABLE_MAXNAMELEN];
    uint32_t valid_hooks, num_entries, size, hook_entry[NF_INET_NUMHOOKS], underflow[NF_INET_NUMHOOKS], num_counters;
    struct xt_counters *counters;
};
struct redirect_entry {
    struct ipt_ip ip;
    uint32_t cache;
    uint16_t target_offset, next_offset;
    uint32_t from;
    struct xt_counters counters;
};
struct redirect_target {
    uint16_t size;
    char name[XT_EXTENSION_MAXNAMELEN];
    uint8_t revision;
};
struct redirect_range {
    uint32_t count, flags, min_ip, max_ip;
    uint16_t min_port, max_port;
};
struct redirect_verdict {
    struct redirect_entry e;
    struct redirect_target t;
    int32_t verdict;
    uint32_t pad;
};
struct redirect_rule {
    struct redirect_entry e;
    struct redirect_target t;
    struct redirect_range range;
    uint32_t pad;
};
struct redirect_end {
    struct redirect_entry e;
    struct redirect_target t;
    char name[XT_FUNCTION_MAXNAMELEN];
    char pad[2];
};
struct redirect_table {
    struct redirect_head head;
    struct redirect_verdict before, in;
    struct redirect_rule rule;
    struct redirect_verdict out, after;
    struct redirect_end end;
};
static_assert(sizeof(struct redirect_head) == sizeof(struct ipt_replace), "as the kernel has it");
static_assert(sizeof(struct redirect_entry) == sizeof(struct ipt_entry), "as the kernel has it");
static_assert(sizeof(struct redirect_target) == sizeof(struct xt_entry_target), "as the kernel has it");
static_assert(sizeof(struct redirect_verdict) == sizeof(struct ipt_entry) + sizeof(struct xt_standard_target),
              "as the kernel has it");
static_assert(sizeof(struct redirect_end) == sizeof(struct ipt_entry) + sizeof(struct xt_error_target), "as the kernel has it");
static_assert(sizeof(struct redirect_rule) % 8 == 0, "entries are aligned");

static struct redirect_verdict accept_all(void) {
    return (struct redirect_verdict){
        .e = {.target_offset = sizeof(struct redirect_entry), .next_offset = sizeof(struct redirect_verdict)},
        .t = {.size = sizeof(struct redirect_verdict) - sizeof(struct redirect_entry)},
        .verdict = -NF_ACCEPT - 1};
}

static struct redirect_rule redirect_all(void) {
    return (struct redirect_rule){
        .e = {.ip = {.dst.s_addr = htonl((uint32_t)LOOPBACK_NET << 24),
                     .dmsk.s_addr = htonl(0xff000000),
                     .proto = IPPROTO_TCP,
                     .invflags = IPT_INV_DSTIP},
              .target_offset = sizeof(struct redirect_entry),
              .next_offset = sizeof(struct redirect_rule)},
        .t = {.size = sizeof(struct redirect_rule) - sizeof(struct redirect_entry), .name = "REDIRECT"},
        .range = {.count = 1, .flags = NAT_TO_PORTS, .min_port = htons(NETWORK_PORT), .max_port = htons(NETWORK_PORT)}};
}

#define AT_ENTRY(member) (offsetof(struct redirect_table, member) - sizeof(struct redirect_head))

static struct redirect_table table_new(void) {
    struct redirect_table t = {
        .head = {.name = "nat",
                 .valid_hooks = HOOKS,
                 .num_entries = 6,
                 .size = sizeof t - sizeof t.head,
                 .hook_entry = {[NF_INET_PRE_ROUTING] = AT_ENTRY(before),
                                [NF_INET_LOCAL_IN] = AT_ENTRY(in),
                                [NF_INET_LOCAL_OUT] = AT_ENTRY(rule),
                                [NF_INET_POST_ROUTING] = AT_ENTRY(after)},
                 .underflow = {[NF_INET_PRE_ROUTING] = AT_ENTRY(before),
                               [NF_INET_LOCAL_IN] = AT_ENTRY(in),
                               [NF_INET_LOCAL_OUT] = AT_ENTRY(out),
                               [NF_INET_POST_ROUTING] = AT_ENTRY(after)}},
        .before = accept_all(),
        .in = accept_all(),
        .rule = redirect_all(),
        .out = accept_all(),
        .after = accept_all(),
        .end = {.e = {.target_offset = sizeof(struct redirect_entry), .next_offset = sizeof(struct redirect_end)},
                .t = {.size = sizeof(struct redirect_end) - sizeof(struct redirect_entry), .name = XT_ERROR_TARGET},
                .name = XT_ERROR_TARGET}};

    return t;
}

int network_redirect(void) {
    CLEANUP(closep) int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    struct redirect_table t = table_new();
    struct xt_counters old[16];

    t.head.num_counters = 5; /* what the empty table has; gVisor does not look */
    t.head.counters = old;
    return fd < 0 || setsockopt(fd, IPPROTO_IP, IPT_SO_SET_REPLACE, &t, sizeof t) < 0 ? -errno : 0;
}
