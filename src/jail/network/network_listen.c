/* SPDX-License-Identifier: Apache-2.0 */
/* The listeners inside that lead to the gate. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/network/network_priv.h"
#include "os/fd.h"

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

int network_listen(struct listeners *n, struct err *err) {
    const bool ipv6 = n->has & NETWORK_IPV6;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(wanted); i++)
        if (ipv6 || wanted[i].families == ONLY_IPV4)
            r = keep(n, wanted[i].place, wanted[i].make(wanted[i].families, wanted[i].port), wanted[i].port, err);
    for (size_t i = 0; r == 0 && !(n->has & NETWORK_EVERY_PORT) && i < ARRAY_LEN(network_named_ports); i++)
        r = keep(n, NETWORK_NAMED + i, new_tcp(ipv6 ? BOTH : ONLY_IPV4, network_named_ports[i]), network_named_ports[i], err);
    return r;
}
