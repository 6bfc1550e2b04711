/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up the network namespace of a sandbox. */
#include "jail/network/network.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/nft_rules.h"
#include "os/fd.h"

enum { LO_INDEX = 1 /* in every new namespace */, NO_ANSWER = 1, ANSWERS_MAX = 8, ANSWER_SIZE = 8192 };

struct network_route {
    struct nlmsghdr h;
    struct rtmsg m;
    struct rtattr oif;
    uint32_t index;
};

/*
 * glibc fails getaddrinfo(AF_INET or AF_INET6, AI_ADDRCONFIG) where no interface has an address of the family but 127.0.0.1 and ::1.
 * These two count, and change nothing else: all of 127.0.0.0/8 is local anyway, and no connection comes from a deprecated address.
 */
struct network_addr4 {
    struct nlmsghdr h;
    struct ifaddrmsg m;
    struct rtattr local;
    uint8_t address[4];
};
struct network_addr6 {
    struct nlmsghdr h;
    struct ifaddrmsg m;
    struct rtattr local;
    uint8_t address[16];
    struct rtattr times;
    struct ifa_cacheinfo lifetime;
};

struct links {
    struct {
        struct nlmsghdr h;
        struct ifinfomsg m;
    } up;
    struct network_route route4;
    struct network_addr4 addr4;
    struct network_route route6;
    struct network_addr6 addr6;
};
enum { ANSWER_UP, ANSWER_ROUTE4, ANSWER_ADDR4, ANSWER_ROUTE6, ANSWER_ADDR6, ANSWERS_LINKS };

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

static struct nlmsghdr new_address(size_t len, uint32_t seq) {
    return (struct nlmsghdr){.nlmsg_len = (uint32_t)len,
                             .nlmsg_type = RTM_NEWADDR,
                             .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
                             .nlmsg_seq = seq};
}

static struct network_addr4 addr4_new(void) {
    return (struct network_addr4){
        .h = new_address(sizeof(struct network_addr4), ANSWER_ADDR4 + 1),
        .m = {.ifa_family = AF_INET, .ifa_prefixlen = 8, .ifa_scope = RT_SCOPE_HOST, .ifa_index = LO_INDEX},
        .local = {.rta_len = RTA_LENGTH(4), .rta_type = IFA_LOCAL},
        .address = {127, 0, 0, 2}};
}

static struct network_addr6 addr6_new(void) {
    return (struct network_addr6){
        .h = new_address(sizeof(struct network_addr6), ANSWER_ADDR6 + 1),
        .m = {.ifa_family = AF_INET6, .ifa_prefixlen = 128, .ifa_flags = IFA_F_NODAD, .ifa_index = LO_INDEX},
        .local = {.rta_len = RTA_LENGTH(16), .rta_type = IFA_LOCAL},
        .address = {0xfe, 0x80, [15] = 1},
        .times = {.rta_len = RTA_LENGTH(sizeof(struct ifa_cacheinfo)), .rta_type = IFA_CACHEINFO},
        .lifetime = {.ifa_prefered = 0, .ifa_valid = UINT32_MAX}};
}

static struct links links_new(void) {
    return (struct links){.up = {.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
                                       .nlmsg_type = RTM_NEWLINK,
                                       .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                                       .nlmsg_seq = ANSWER_UP + 1},
                                 .m = {.ifi_index = LO_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}},
                          .route4 = route_to_all(AF_INET, ANSWER_ROUTE4 + 1),
                          .addr4 = addr4_new(),
                          .route6 = route_to_all(AF_INET6, ANSWER_ROUTE6 + 1),
                          .addr6 = addr6_new()};
}

int network_loopback(struct err *err) {
    const struct links all = links_new();
    int answer, r = talk(NETLINK_ROUTE, &all.up, sizeof all.up, &answer, 1);

    r = r < 0 ? r : answer;
    return r == 0 ? 0 : err_sys(err, r < 0 ? r : -EPROTO, "bring loopback up");
}

/* gVisor, whose loopback is up, and for which an address on loopback is a whole subnet, as it is for Linux. */
static int make_one_subnet(unsigned *has, struct err *err) {
    struct network_addr4 all = addr4_new();
    int answer, r;

    all.m.ifa_prefixlen = 0;
    all.address[3] = 3; /* 127.0.0.2 has its own already */
    all.h.nlmsg_seq = 1;
    r = talk(NETLINK_ROUTE, &all, sizeof all, &answer, 1);
    r = r < 0 ? r : answer;
    if (r != 0)
        return err_sys(err, r < 0 ? r : -EPROTO, "make every address local");
    *has |= NETWORK_REDIRECTED;
    return 0;
}

/* Everything becomes local. Without IPv6 (ipv6.disable=1, or not built) the rest still counts. */
static int make_links(unsigned want, unsigned *has, struct err *err) {
    const struct links all = links_new();
    int answers[ANSWERS_LINKS];
    size_t len = want & NETWORK_IPV6 ? sizeof all : offsetof(struct links, route6);
    int r = talk(NETLINK_ROUTE, &all, len, answers, ANSWERS_LINKS);

    r = r < 0 ? r : answers[ANSWER_UP];
    if (r == -EOPNOTSUPP)
        return make_one_subnet(has, err);
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

/* -- the listeners inside that lead to the gate -------------------------------------------------------------------------- */

enum { BACKLOG = 4096 /* net.core.somaxconn of a new namespace */ };

/* What people connect to: ssh, DNS, web, PostgreSQL, MySQL, Redis, MongoDB, git. */
const uint16_t network_named_ports[] = {22, 53, 80, 443, 8080, 8443, 5432, 3306, 6379, 27017, 9418};
const size_t n_network_named_ports = ARRAY_LEN(network_named_ports);
static_assert(NETWORK_NAMED + ARRAY_LEN(network_named_ports) <= NETWORK_FDS_MAX, "a place for each");

enum families { ONLY_IPV4, ONLY_IPV6, BOTH };

static int set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) < 0 ? -errno : 0;
}

static int bind_all(int fd, enum families families, uint16_t port) {
    const struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    const struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int r = families == ONLY_IPV4 ? 0 : set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, families == ONLY_IPV6);

    if (r < 0)
        return r;
    r = families == ONLY_IPV4 ? bind(fd, (const struct sockaddr *)&a4, sizeof a4)
                              : bind(fd, (const struct sockaddr *)&a6, sizeof a6);
    return r < 0 ? -errno : 0;
}

static int new_socket(enum families families, int type) {
    int fd = socket(families == ONLY_IPV4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

static int new_tcp(enum families families, uint16_t port) {
    CLEANUP(closep) int fd = new_socket(families, SOCK_STREAM);
    int r = fd;

    if (r >= 0 && port == NETWORK_PORT) /* without it the kernel drops what a tproxy rule sends here */
        r = families == ONLY_IPV4 ? set_option(fd, IPPROTO_IP, IP_TRANSPARENT, 1)
                                  : set_option(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1);
    r = r < 0 ? r : bind_all(fd, families, port);
    if (r == 0 && listen(fd, BACKLOG) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(fd);
}

/* With the address that was asked, so that the answer comes from there. */
static int new_udp(enum families families, uint16_t port) {
    CLEANUP(closep) int fd = new_socket(families, SOCK_DGRAM);
    int r = fd;

    if (r >= 0)
        r = families == ONLY_IPV4 ? set_option(fd, IPPROTO_IP, IP_PKTINFO, 1) : set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    if (r == 0 && families == ONLY_IPV6) /* there a route of type local makes no address of one's own */
        r = set_option(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
    r = r < 0 ? r : bind_all(fd, families, port);
    return r < 0 ? r : TAKE_FD(fd);
}

static const struct {
    enum network_place place;
    enum families families;
    int (*make)(enum families, uint16_t);
    uint16_t port;
} wanted[] = {
    {NETWORK_TCP4, ONLY_IPV4, new_tcp, NETWORK_PORT},
    {NETWORK_UDP4, ONLY_IPV4, new_udp, NETWORK_DNS_PORT},
    {NETWORK_TCP6, ONLY_IPV6, new_tcp, NETWORK_PORT},
    {NETWORK_UDP6, ONLY_IPV6, new_udp, NETWORK_DNS_PORT},
};

static int keep(struct listeners *n, size_t place, int fd, uint16_t port, struct err *err) {
    if (fd < 0)
        return err_sys(err, fd, "listen on port %u of the sandbox", port);
    n->fds[place] = fd;
    return 0;
}

/* What n->has says that there is to listen for. May leave some listeners behind on failure. */
static int listen_all(struct listeners *n, struct err *err) {
    const bool ipv6 = n->has & NETWORK_IPV6;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(wanted); i++)
        if (ipv6 || wanted[i].families == ONLY_IPV4)
            r = keep(n, wanted[i].place, wanted[i].make(wanted[i].families, wanted[i].port), wanted[i].port, err);
    for (size_t i = 0; r == 0 && !(n->has & NETWORK_EVERY_PORT) && i < ARRAY_LEN(network_named_ports); i++)
        r = keep(n, NETWORK_NAMED + i, new_tcp(ipv6 ? BOTH : ONLY_IPV4, network_named_ports[i]), network_named_ports[i], err);
    return r;
}

int network_make(unsigned want, struct listeners *ret, struct err *err) {
    struct listeners n = LISTENERS_INIT;
    int r = make_links(want, &n.has, err);

    if (r < 0)
        return r;
    n.rules = want & NETWORK_EVERY_PORT ? n.has & NETWORK_REDIRECTED ? network_redirect() : make_rules() : -EOPNOTSUPP;
    if (n.rules < 0)
        n.has &= ~(unsigned)NETWORK_REDIRECTED;
    n.has |= n.rules == 0 ? NETWORK_EVERY_PORT : 0;
    r = listen_all(&n, err);
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
