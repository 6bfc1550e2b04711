/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the network namespace of a sandbox. */
#include "jail/network/network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/network/network_priv.h"
#include "jail/nft_rules.h"
#include "os/fd.h"

enum { LO_INDEX = 1 /* in every new namespace */, NO_ANSWER = 1, ANSWERS_MAX = 8, ANSWER_SIZE = 8192 };

struct network_route {
    struct nlmsghdr h;
    struct rtmsg m;
    struct rtattr oif;
    uint32_t index;
};

struct links {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg m;
    } up;
    struct network_route route4, route6;
};
enum { ANSWER_UP, ANSWER_ROUTE4, ANSWER_ROUTE6, ANSWERS_LINKS };

/* Of the messages that were answered, numbered from 1, the error or 0. */
static int read_answers(int sock, int *answers, size_t n) {
    union {
        struct nlmsghdr h;
        char bytes[ANSWER_SIZE];
    } buf;
    ssize_t len;

    /* Requests are carried out inside of sendto(): all the answers are here. */
    while ((len = recv(sock, &buf, sizeof buf, MSG_DONTWAIT)) > 0) {
        const struct nlmsgerr *e = NLMSG_DATA(&buf.h);

        if ((size_t)len < NLMSG_LENGTH(sizeof *e) || buf.h.nlmsg_type != NLMSG_ERROR)
            return -EPROTO;
        if (buf.h.nlmsg_seq >= 1 && buf.h.nlmsg_seq <= n)
            answers[buf.h.nlmsg_seq - 1] = e->error;
        else if (e->error < 0)
            return e->error;
    }
    return len < 0 && errno == EAGAIN ? 0 : -errno;
}

static int talk(int protocol, const void *bytes, size_t len, int *answers, size_t n) {
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    CLEANUP(closep) int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    for (size_t i = 0; i < n; i++)
        answers[i] = NO_ANSWER;
    if (sock < 0 || sendto(sock, bytes, len, 0, (const struct sockaddr *)&kernel, sizeof kernel) < 0)
        return -errno;
    return read_answers(sock, answers, n);
}

static struct network_route route_to_all(int family, uint32_t seq) {
    return (struct network_route){.h = {.nlmsg_len = sizeof(struct network_route),
                                        .nlmsg_type = RTM_NEWROUTE,
                                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
                                        .nlmsg_seq = seq},
                                  .m = {.rtm_family = (unsigned char)family,
                                        .rtm_table = RT_TABLE_LOCAL,
                                        .rtm_protocol = RTPROT_BOOT,
                                        .rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE,
                                        .rtm_type = RTN_LOCAL},
                                  .oif = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTA_OIF},
                                  .index = LO_INDEX};
}

static struct links links_new(void) {
    return (struct links){.up = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                                       .nlmsg_type = RTM_NEWLINK,
                                       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                                       .nlmsg_seq = ANSWER_UP + 1},
                                 .m = {.ifi_index = LO_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}},
                          .route4 = route_to_all(AF_INET, ANSWER_ROUTE4 + 1),
                          .route6 = route_to_all(AF_INET6, ANSWER_ROUTE6 + 1)};
}

int network_loopback(struct err *err) {
    const struct links all = links_new();
    int answer, r = talk(NETLINK_ROUTE, &all.up, sizeof all.up, &answer, 1);

    r = r < 0 ? r : answer;
    return r == 0 ? 0 : err_sys(err, r < 0 ? r : -EPROTO, "bring loopback up");
}

/* Everything becomes local. Without IPv6 (ipv6.disable=1, or not built) the rest still counts. */
static int make_links(unsigned want, unsigned *has, struct err *err) {
    const struct links all = links_new();
    int answers[ANSWERS_LINKS];
    size_t len = want & NETWORK_IPV6 ? sizeof all : offsetof(struct links, route6);
    int r = talk(NETLINK_ROUTE, &all, len, answers, ANSWERS_LINKS);

    r = r < 0 ? r : answers[ANSWER_UP];
    if (r != 0)
        return err_sys(err, r < 0 ? r : -EPROTO, "bring loopback up");
    r = answers[ANSWER_ROUTE4];
    if (r != 0)
        return err_sys(err, r < 0 ? r : -EPROTO, "route everything to loopback");
    *has |= answers[ANSWER_ROUTE6] == 0 ? NETWORK_IPV6 : 0;
    return 0;
}

static int make_rules(void) {
    int answers[ANSWERS_MAX], r = talk(NETLINK_NETFILTER, nft_rules, sizeof nft_rules, answers, ARRAY_LEN(answers));
    bool done = false;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(answers); i++) {
        r = answers[i] < 0 ? answers[i] : 0;
        done |= answers[i] == 0;
    }
    return r < 0 ? r : done ? 0 : -EPROTO;
}

int network_make(unsigned want, struct listeners *ret, struct err *err) {
    struct listeners n = LISTENERS_INIT;
    int r = make_links(want, &n.has, err);

    if (r < 0)
        return r;
    n.rules = want & NETWORK_EVERY_PORT ? make_rules() : -EOPNOTSUPP;
    n.has |= n.rules == 0 ? NETWORK_EVERY_PORT : 0;
    r = network_listen(&n, err);
    if (r < 0) {
        network_done(&n);
        return r;
    }
    /* So that the inside can serve on port 80. A container's read-only /proc/sys is no reason to stop: then it cannot. */
    fd_write_file_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    *ret = n;
    return 0;
}

void network_done(struct listeners *n) {
    for (size_t i = 0; i < NETWORK_FDS_MAX; i++)
        closep(&n->fds[i]);
}
