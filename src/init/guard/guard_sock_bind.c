/* SPDX-License-Identifier: Apache-2.0 */
/* socket(2), bind(2) and listen(2) for the inside. */
#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "init/guard/guard_sock.h"
#include "jail/network/network.h"
#include "os/fd.h"

enum { TYPE_MASK = 0xf, LOOPBACK_NET = 127, PROTO_TCP = 6, PROTO_UDP = 17 };

/* As the filter says once more (jail/fence/seccomp_policy.h). */
static int check_kind(int family, int type, int protocol) {
    int kind = type & TYPE_MASK;

    if (type & ~(TYPE_MASK | SOCK_CLOEXEC | SOCK_NONBLOCK))
        return -EINVAL;
    if (family == AF_UNIX)
        return (kind == SOCK_STREAM || kind == SOCK_SEQPACKET) && protocol == 0 ? 0 : -EACCES;
    if (family != AF_INET && family != AF_INET6)
        return -EAFNOSUPPORT;
    if (kind == SOCK_DGRAM)
        return protocol == 0 || protocol == PROTO_UDP ? 0 : -EACCES;
    return kind == SOCK_STREAM && (protocol == 0 || protocol == PROTO_TCP) ? 0 : -EACCES;
}

/* In place of a socket for UDP, which could send to wherever a message says, one of the same borders that sends to no one (guard_sock_connect.c). */
static int make_socket(int family, int type, int protocol, bool datagram) {
    type |= SOCK_CLOEXEC;
    return datagram ? socket(AF_UNIX, (type & ~TYPE_MASK) | SOCK_SEQPACKET, 0) : socket(family, type, protocol);
}

long guard_sock_make(struct call *c) {
    int family = (int)c->arg[0], type = (int)c->arg[1], protocol = (int)c->arg[2], r = check_kind(family, type, protocol);
    struct seccomp_notif_addfd add = {
        .id = c->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .newfd_flags = type & SOCK_CLOEXEC ? O_CLOEXEC : 0};
    bool datagram = family != AF_UNIX && (type & TYPE_MASK) == SOCK_DGRAM;
    CLEANUP(closep) int fd = r < 0 ? -1 : make_socket(family, type, protocol, datagram);
    struct sock_dup *s;

    if (r < 0 || fd < 0)
        return r < 0 ? r : -errno;
    s = socks_add(c->g->socks, fd, family, guard_now_ms());
    if (!s)
        return -ENFILE;
    add.srcfd = (uint32_t)TAKE_FD(fd);
    s->datagram = datagram;
    s->holder = c->tid;
    s->at = ioctl(c->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    if (s->at >= 0)
        return GUARD_ANSWERED;
    r = errno == ENOENT ? GUARD_ANSWERED : -errno; /* ENOENT: the caller died; else its limit of descriptors */
    socks_drop(c->g->socks, s);
    return r;
}

static int bind_to(int fd, int family, struct in_addr ip, uint16_t port) {
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = ip, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const int no = 0;

    if (family == AF_INET)
        return bind(fd, (const struct sockaddr *)&in, sizeof in) < 0 ? -errno : 0;
    in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
    memcpy(in6.sin6_addr.s6_addr + 12, &ip, 4);
    if (setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) < 0 || bind(fd, (const struct sockaddr *)&in6, sizeof in6) < 0)
        return -errno;
    return 0;
}

/* As IPv4, which it is. */
static int name_of(int fd, struct sockaddr_in *ret) {
    struct sockaddr_storage a = {0};
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a;
    socklen_t len = sizeof a;

    if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return -errno;
    if (a.ss_family == AF_INET) {
        memcpy(ret, &a, sizeof *ret);
        return 0;
    }
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = in6->sin6_port};
    memcpy(&ret->sin_addr, in6->sin6_addr.s6_addr + 12, 4);
    return 0;
}

static int bind_own(struct guard_socks *k, struct sock_dup *s, uint16_t port) {
    struct in_addr ip = s->family == AF_INET ? k->own : k->own6;
    const int fd = s->fd, family = s->family, on = 1;
    int r = door_lock(k, fd, family);

    if (r == 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) /* guard_sock_connect.c: is_served() */
        r = -errno;
    if (r < 0)
        return r;
    r = bind_to(fd, family, ip, port);
    if (r != -EADDRINUSE)
        return r;
    socks_sweep(k, 0); /* perhaps it is bound by one that no process has any more; s may be another's now */
    return bind_to(fd, family, ip, port);
}

/* Another address for each connection: ports do not run out while old ones wait for their end. */
int sock_bind_source(struct guard_socks *k, int fd, int family, struct sockaddr_in *ret) {
    int r = name_of(fd, ret);

    for (int i = 0; r == 0 && !ret->sin_port && i < GUARD_TRIES; i++) {
        struct in_addr ip = {htonl((uint32_t)LOOPBACK_NET << 24 | (uint32_t)(0x100000 + socks_random(k) % 0xe00000))};

        r = bind_to(fd, family, ip, 0);
        if (r == -EADDRINUSE && i + 1 < GUARD_TRIES)
            r = 0;
        else
            r = r < 0 ? r : name_of(fd, ret);
    }
    return r < 0 ? r : ret->sin_port ? 0 : -EADDRNOTAVAIL;
}

/* Loopback, or any address. */
static int judge_own(const struct sock_address *a) {
    static const struct in6_addr any6 = IN6ADDR_ANY_INIT, loop6 = IN6ADDR_LOOPBACK_INIT;
    const struct in6_addr *ip6 = &a->u.in6.sin6_addr;
    uint32_t ip = ntohl(a->u.in.sin_addr.s_addr);

    if (a->u.any.sa_family == AF_INET6) {
        if (memcmp(ip6, &any6, sizeof any6) == 0 || memcmp(ip6, &loop6, sizeof loop6) == 0)
            return 0;
        if (!IN6_IS_ADDR_V4MAPPED(ip6))
            return -EADDRNOTAVAIL;
        memcpy(&ip, ip6->s6_addr + 12, 4);
        ip = ntohl(ip);
    }
    return ip == 0 || ip >> 24 == LOOPBACK_NET ? 0 : -EADDRNOTAVAIL;
}

static long bind_internet(struct guard_socks *k, struct sock_dup *s, const struct sock_address *a) {
    size_t least = s->family == AF_INET ? sizeof a->u.in : sizeof a->u.in6 - sizeof a->u.in6.sin6_scope_id;
    uint16_t port = ntohs(a->u.in.sin_port); /* in the same place for both */
    int r;

    if (a->len < least)
        return -EINVAL;
    if (a->u.any.sa_family != s->family)
        return -EAFNOSUPPORT;
    r = judge_own(a);
    if (r == 0 && port == NETWORK_PORT)
        return -EADDRINUSE;
    return r < 0 ? r : bind_own(k, s, port);
}

long guard_sock_bind(struct call *c) {
    struct sock_address a;
    struct sock_dup *s;
    int r = sock_address_read(c, &a);

    r = r < 0 ? r : socks_find(c, (int)c->arg[0], &s);
    if (r < 0)
        return r == -EISCONN ? -EINVAL : r;
    if (s->datagram)
        return -EACCES;
    return s->family == AF_UNIX ? sock_unix_bind(c, s, &a) : bind_internet(c->g->socks, s, &a);
}

/* Whatever was tried with it before: it has the key, and an address of the sandbox's. */
static int at_own(struct guard_socks *k, struct sock_dup *s) {
    struct in_addr own = s->family == AF_INET ? k->own : k->own6;
    struct sockaddr_in name;
    int r = door_lock(k, s->fd, s->family);

    r = r < 0 ? r : name_of(s->fd, &name);
    return r < 0 || name.sin_addr.s_addr == own.s_addr ? r : bind_own(k, s, 0);
}

/* What listens needs no guard any more. In the host's network it listens with the key only, and not at an address that the kernel chose. */
long guard_sock_listen(struct call *c) {
    struct guard_socks *k = c->g->socks;
    struct sock_dup *s;
    int r = socks_find(c, (int)c->arg[0], &s);

    if (r == -EISCONN) /* it listens already, or does not need to */
        return 0;
    if (r == 0 && s->datagram)
        return -EOPNOTSUPP;
    if (r == 0 && s->family != AF_UNIX) {
        r = at_own(k, s);
        r = r < 0 ? r : socks_find(c, (int)c->arg[0], &s); /* a sweep may have moved it */
    }
    if (r < 0)
        return r;
    if (listen(s->fd, (int)c->arg[1]) < 0)
        return -errno;
    socks_drop(k, s);
    return 0;
}
