/* SPDX-License-Identifier: Apache-2.0 */
/* connect(2) for the inside: to the gate, or to a server inside. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "init/guard/guard_sock.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/link/linkmsg.h"

enum { LOOPBACK_NET = 127, FOREIGN_MAX = 4096, NAMES_BACKLOG = 64 };

/* Where the caller wants to: an IPv4 address in IPv6's clothes is one of IPv4. */
static int read_target(const struct sock_dup *s, const struct sock_address *a, struct link_addr *ret) {
    const struct in6_addr *ip6 = &a->u.in6.sin6_addr;

    *ret = (struct link_addr){.family = 4, .port = ntohs(a->u.in.sin_port)};
    if (a->u.any.sa_family != s->family)
        return -EAFNOSUPPORT;
    if (s->family == AF_INET) {
        if (a->len < sizeof a->u.in)
            return -EINVAL;
        memcpy(ret->ip, &a->u.in.sin_addr, 4);
        return 0;
    }
    if (a->len < sizeof a->u.in6 - sizeof a->u.in6.sin6_scope_id)
        return -EINVAL;
    if (IN6_IS_ADDR_V4MAPPED(ip6)) {
        memcpy(ret->ip, ip6->s6_addr + 12, 4);
        return 0;
    }
    ret->family = 6;
    memcpy(ret->ip, ip6, 16);
    return 0;
}

static bool is_loopback(const struct link_addr *a) {
    static const uint8_t none[16] = {0}, loop[16] = {[15] = 1};

    if (a->family == 4)
        return a->ip[0] == LOOPBACK_NET || memcmp(a->ip, none, 4) == 0;
    return memcmp(a->ip, none, 16) == 0 || memcmp(a->ip, loop, 16) == 0;
}

/* Never waits. The flag is that of the caller's descriptor as well, for the moment. 0 or -errno; -EINPROGRESS. */
static int connect_now(int fd, const struct sockaddr_in *to, int family) {
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = to->sin_port};
    int flags = fcntl(fd, F_GETFL), no = 0, r;

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    if (family == AF_INET) {
        r = connect(fd, (const struct sockaddr *)to, sizeof *to);
    } else {
        in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
        memcpy(in6.sin6_addr.s6_addr + 12, &to->sin_addr, 4);
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no); /* EINVAL once it is bound, which was by us */
        r = connect(fd, (const struct sockaddr *)&in6, sizeof in6);
    }
    r = r < 0 ? -errno : 0;
    fcntl(fd, F_SETFL, flags);
    return r;
}

/* The other end of the connection that was just made; what others made is dropped. */
static int accept_own(const struct guard_socks *k, const struct sockaddr_in *client, int *ret) {
    for (int i = 0; i < FOREIGN_MAX; i++) {
        struct pollfd p = {.fd = k->door, .events = POLLIN};
        struct sockaddr_in from = {0};
        socklen_t len = sizeof from;
        int fd = accept4(k->door, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && errno == EAGAIN && poll(&p, 1, SOCKS_ARRIVAL_MS) > 0)
            continue;
        if (fd < 0)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
        if (from.sin_port == client->sin_port && from.sin_addr.s_addr == client->sin_addr.s_addr) {
            *ret = fd;
            return 0;
        }
        close(fd);
    }
    return -ECONNREFUSED;
}

static void forget_connection(int fd) {
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void)!connect(fd, &none, sizeof none);
}

static bool gate_has_room(const struct guard_socks *k) {
    struct pollfd p = {.fd = k->gate, .events = POLLOUT};

    return poll(&p, 1, 0) > 0 && p.revents & POLLOUT;
}

static long later(const struct guard *g, int otherwise) {
    return g->n_later < GUARD_LATER_MAX && g->waited_ms < GUARD_PATIENCE_MS ? GUARD_LATER : otherwise;
}

static int hand_over(const struct guard_socks *k, const struct link_addr *to, const struct sockaddr_in *client, int fd) {
    struct link_addr from = {.family = 4, .port = ntohs(client->sin_port)};
    uint8_t head[LINK_DATAGRAM_HEAD];

    memcpy(from.ip, &client->sin_addr, 4);
    link_addr_encode(to, head);
    link_addr_encode(&from, head + LINK_ADDR);
    return sock_send(k->gate, head, sizeof head, &fd, 1);
}

static long connect_gate(const struct call *c, struct sock_dup *s, const struct link_addr *to) {
    struct guard_socks *k = c->g->socks;
    CLEANUP(closep) int other = -1;
    struct sockaddr_in client;
    int r;

    if (!gate_has_room(k))
        return later(c->g, -ECONNREFUSED);
    r = door_unlock(k, s->fd, s->family);
    r = r < 0 ? r : sock_bind_source(k, s->fd, s->family, &client);
    r = r < 0 ? r : connect_now(s->fd, &k->door_addr, s->family);
    if (r < 0 && r != -EINPROGRESS)
        return r;
    r = accept_own(k, &client, &other);
    r = r < 0 ? r : hand_over(k, to, &client, other);
    if (r < 0) { /* it reaches no one */
        forget_connection(s->fd);
        return -ECONNREFUSED;
    }
    socks_drop(k, s);
    return 0;
}

/* Whether something listens there. A refusal is not signed, so that a client with a key would not hear it; that the address cannot be taken says the
 * same. Every listener of ours has SO_REUSEADDR, and with it connections that are over, or not, do not count. */
static bool is_served(struct in_addr ip, uint16_t port) {
    const struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = ip};
    CLEANUP(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    return fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
           bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 && errno == EADDRINUSE;
}

/* -EAGAIN: its queue is full. */
static int connect_one(struct guard_socks *k, int fd, int family, struct in_addr ip, uint16_t port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = ip}, client;
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer, size = sizeof(int);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int failed = 0, r = is_served(ip, port) ? door_lock(k, fd, family) : -ECONNREFUSED;

    r = r < 0 ? r : sock_bind_source(k, fd, family, &client);
    r = r < 0 ? r : connect_now(fd, &to, family);
    if (r != -EINPROGRESS)
        return r;
    poll(&p, 1, SOCKS_HANDSHAKE_MS); /* the kernel is mostly done with it, but not always */
    if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0 || failed)
        return failed ? -failed : -errno;
    forget_connection(fd);
    return -EAGAIN;
}

/* As the kernel would find it: a server for IPv6 may serve IPv4, too. to NULL: whichever there is. */
static int connect_inside(struct guard_socks *k, int fd, int family, const struct link_addr *to, uint16_t port) {
    bool six = to && (to->family == 6 || memcmp(to->ip, &k->own6, 4) == 0);
    int r = six ? -ECONNREFUSED : connect_one(k, fd, family, k->own, port);

    return r == -ECONNREFUSED ? connect_one(k, fd, family, k->own6, port) : r;
}

/* An abstract name that the kernel chooses. */
static int name_socket(int fd, struct sockaddr_un *ret, socklen_t *ret_len) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    *ret_len = sizeof *ret;
    if (bind(fd, (const struct sockaddr *)&name, sizeof name.sun_family) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, ret_len) < 0)
        return -errno;
    return 0;
}

static int open_names(struct guard_socks *k) {
    struct sockaddr_un ignored;
    socklen_t len;
    int r;

    if (k->names >= 0)
        return 0;
    k->names = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    r = k->names < 0 ? -errno : name_socket(k->names, &ignored, &len);
    if (r == 0 && listen(k->names, NAMES_BACKLOG) < 0)
        r = -errno;
    if (r < 0)
        closep(&k->names);
    return r;
}

/* The connection's other end is the one whose name is the caller's; what others made is dropped. */
static int accept_names(const struct guard_socks *k, const struct sockaddr_un *client, socklen_t client_len, int *ret) {
    for (int i = 0; i < FOREIGN_MAX; i++) {
        struct sockaddr_un from = {0};
        socklen_t len = sizeof from;
        int fd = accept4(k->names, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
            return -errno;
        if (len == client_len && memcmp(&from, client, len) == 0) {
            *ret = fd;
            return 0;
        }
        close(fd);
    }
    return -ECONNREFUSED;
}

static int connect_door(const struct guard_socks *k, int fd) {
    struct sockaddr_un door;
    socklen_t len = sizeof door;
    int flags = fcntl(fd, F_GETFL), r;

    if (flags < 0 || getsockname(k->names, (struct sockaddr *)&door, &len) < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    r = connect(fd, (const struct sockaddr *)&door, len) < 0 ? -errno : 0;
    fcntl(fd, F_SETFL, flags);
    return r;
}

/* Names by UDP: whichever address it is, the name server is the gate's. */
static long connect_names(const struct call *c, struct sock_dup *s, const struct link_addr *to) {
    const struct link_addr any = {.family = 4, .port = NETWORK_DNS_PORT};
    const struct sockaddr_in no_one = {.sin_family = AF_INET};
    struct guard_socks *k = c->g->socks;
    CLEANUP(closep) int other = -1;
    struct sockaddr_un client;
    socklen_t len;
    int r;

    if (to->port != NETWORK_DNS_PORT)
        return -EACCES;
    if (!gate_has_room(k))
        return later(c->g, -ECONNREFUSED);
    r = open_names(k);
    r = r < 0 ? r : name_socket(s->fd, &client, &len);
    r = r < 0 ? r : connect_door(k, s->fd);
    r = r < 0 ? r : accept_names(k, &client, len, &other);
    r = r < 0 ? r : hand_over(k, &any, &no_one, other);
    if (r < 0)
        return -ECONNREFUSED;
    socks_drop(k, s);
    return 0;
}

static long connect_internet(const struct call *c, struct sock_dup *s, const struct sock_address *a) {
    struct guard_socks *k = c->g->socks;
    struct link_addr to;
    int r = read_target(s, a, &to);

    if (r < 0)
        return r;
    if (s->datagram)
        return connect_names(c, s, &to);
    if (!is_loopback(&to) || to.port == NETWORK_PORT)
        return connect_gate(c, s, &to);
    r = connect_inside(k, s->fd, s->family, &to, to.port);
    if (r == -ECONNREFUSED && to.port == NETWORK_DNS_PORT)
        return connect_gate(c, s, &to);
    if (r == -EAGAIN)
        return later(c->g, -ETIMEDOUT);
    if (r == 0)
        socks_drop(k, s);
    return r;
}

long guard_sock_connect(struct call *c) {
    struct sock_address a;
    struct sock_dup *s;
    int r = sock_address_read(c, &a);

    r = r < 0 ? r : socks_find(c, (int)c->arg[0], &s);
    if (r < 0)
        return r;
    if (a.u.any.sa_family == AF_UNSPEC) /* there is no connection */
        return 0;
    return s->family == AF_UNIX ? sock_unix_connect(c, s, &a) : connect_internet(c, s, &a);
}

int guard_inside(struct guard *g, int port, int *ret_fd) {
    CLEANUP(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int r = fd < 0 ? -errno : 0;

    if (port < 1 || port > UINT16_MAX || port == NETWORK_PORT)
        return -EINVAL;
    r = r < 0 ? r : connect_inside(g->socks, fd, AF_INET, NULL, (uint16_t)port);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r == -EAGAIN ? -ECONNREFUSED : r;
}
