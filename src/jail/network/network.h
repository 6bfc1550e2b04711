/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a sandbox: an empty network namespace in which every address is local. Every connection reaches one of
 * our listeners, which are made here, by the child that becomes bawn-init, and then handed out to the supervisor (INIT_MSG_NETWORK).
 *
 * Theory of operation. Routes of type `local` for 0.0.0.0/0 and ::/0 make the kernel deliver every packet to this namespace. A
 * tproxy rule (tools/nft-gen.c) then gives the first packet of each TCP connection, whatever its port, to the listener on port 15001;
 * the accepted socket's own address is the address that was asked for. UDP is heard on port 53 only, all else is refused by the
 * kernel itself (ECONNREFUSED). The inside's own servers on 127.0.0.0/8 and ::1 are left alone.
 *
 * Where the kernel has no nftables, or no tproxy, there is a listener for each port that is known to be wanted, and connections
 * to other ports are refused. Nothing leaves the namespace either way: it has no device but lo.
 *
 * gVisor has no routes that can be set: there an address of prefix 0 on loopback makes every IPv4 address local, and a rule of iptables does what
 * tproxy does (network_redirect.c). IPv6 has no such address: nothing of it is reachable.
 *
 * The inside cannot take our ports, although it may bind any port: none of our sockets has SO_REUSEADDR or SO_REUSEPORT.
 */
#pragma once

#include "base/macros.h"

struct err;

enum {
    NETWORK_PORT = 15001, /* where all TCP arrives; on loopback, the entry for clients that want a proxy */
    NETWORK_DNS_PORT = 53,
    NETWORK_FDS_MAX = 16
};

/* Places of the listeners. From NETWORK_NAMED on: TCP for IPv4 and IPv6 together (as ::ffff:a.b.c.d), one for each named port. */
enum network_place { NETWORK_TCP4, NETWORK_TCP6, NETWORK_UDP4, NETWORK_UDP6, NETWORK_NAMED };

/* Features to try, and, in the result, those that were had. */
enum { NETWORK_IPV6 = 1, NETWORK_EVERY_PORT = 2, NETWORK_EVERYTHING = NETWORK_IPV6 | NETWORK_EVERY_PORT };
/* Only in the result: what was accepted has to be asked for the address that it was for (network_redirect.c). */
enum { NETWORK_REDIRECTED = 4 };

extern const uint16_t network_named_ports[];
extern const size_t n_network_named_ports;

struct listeners {
    unsigned has;
    int rules;                /* 0, or why not every port: -errno */
    int fds[NETWORK_FDS_MAX]; /* -1: none; non-blocking, close-on-exec */
};
#define LISTENERS_INIT                                                            \
    {                                                                             \
        .fds = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 } \
    }

/* lo up, and nothing else: programs can talk to themselves. Works without IPv4 and IPv6 too. */
int network_loopback(struct err *err);

/* For a process with CAP_NET_ADMIN over its own network namespace. Only system calls: it may run on another's memory. Fails
 * if not even the named ports are available. */
int network_make(unsigned want, struct listeners *ret, struct err *err);
void network_done(struct listeners *n);
int network_redirect(void); /* takes CAP_NET_RAW, too. 0 or -errno */

/* Through the control socket, before bawn-init speaks. The receiver trusts the sender, who is its own child. */
int network_send(int sock, const struct listeners *n, struct err *err);
int network_receive(int sock, struct listeners *ret, struct err *err);
