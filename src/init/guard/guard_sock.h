/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets where there is no network namespace. socket(), connect(), bind() and listen() of the command come to the guard, which makes each socket
 * itself, keeps a duplicate, and does the other three on it. Which socket a descriptor of the caller's means is found by its inode; from then on
 * neither the descriptor nor the address, which was copied once, can become another.
 *
 *   to the gate        TCP to any address but loopback, and to port 53 of every address: the socket is connected to a listener of the guard's own (door),
 *                      which accepts it at once, checks that it is this one, and hands its other end to the gate with the address that was
 *                      asked for (gateway/net/delivery.h). No listener of the gate's exists that others could find.
 *   servers inside     bind() to loopback or to any address becomes one on an address of 127.0.0.0/8 that is this sandbox's, with the same port. Loopback
 *                      addresses lead there. Packets between the two are signed with a key of the guard's (guard_door.c), so that no process of the
 *                      host, and no other sandbox, can connect, and accept() needs no guard. --publish goes the same way.
 *   names by UDP       a socket for UDP is a unix one, of messages, which sends nothing until it is connected to port 53: then its other end is the gate's
 *                      name server. Resolvers that connect work (Go's, glibc's); connect() to other ports and bind() are EACCES
 *   unix sockets       those that were bound inside, and those that the start message names
 *   everything else    refused: raw, netlink and all other families, by the filter already (jail/fence/seccomp_policy.h)
 *
 * A duplicate ends when the socket is connected or listens: from then on it is the caller's alone. Of the others it is looked every now and then
 * whether a process inside still has them.
 *
 * Differences that a program can see: getsockname() shows the address of 127.0.0.0/8, getpeername() the door's; connect() waits for no one; a
 * second connect() is EISCONN, and none dissolves a connection (AF_UNSPEC); SO_REUSEPORT and TCP_DEFER_ACCEPT have no effect.
 */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "init/guard/guard_place.h"

enum {
    SOCKS_MAX = 384,       /* duplicates; past it: ENFILE. With the guard's listeners less than the usual limit of descriptors */
    SOCKS_BOUND = 256,     /* unix sockets bound inside that are remembered; past it the oldest are forgotten */
    SOCKS_SWEEP_MS = 2000, /* how often is looked for duplicates of what was closed inside */
    SOCKS_HANDSHAKE_MS = 10, /* that a server inside may take to be connected to; its kernel is ours */
    SOCKS_ARRIVAL_MS = 5000
};

struct sock_dup {
    int fd; /* the duplicate */
    uint64_t ino;
    int family;
    bool datagram; /* asked for as UDP; it is a unix socket */
    pid_t holder;  /* a process that had it when it was last looked, and its number there */
    int at;
    unsigned missed; /* how often none was found */
};

struct sock_bound {
    dev_t dev;
    ino_t ino;
    uint64_t birth_ns;
};

struct guard_socks {
    int gate; /* SEQPACKET: where connections are handed over */
    int door; /* the guard's own listener */
    struct sockaddr_in door_addr;
    int named[GUARD_GATE_FDS - 1]; /* O_PATH: sockets that the start message names, in its order; -1: it is found by its path */
    int names;                     /* the same for names by UDP; -1: not yet */
    struct in_addr own, own6;      /* servers inside, by the family of their sockets */
    uint64_t random;
    uint8_t key[32]; /* of packets between servers and clients inside */
    struct sock_dup v[SOCKS_MAX];
    size_t n;
    struct sock_bound bound[SOCKS_BOUND];
    size_t n_bound;    /* ever */
    uint64_t sweep_ms; /* when next; 0: nothing to look for */
};

struct sock_address {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
        struct sockaddr_storage room;
    } u;
    socklen_t len;
};

/* guard_sock.c. Takes gate. */
int socks_new(const int gate[static GUARD_GATE_FDS], struct guard_socks **ret, struct err *err);
struct sock_dup *socks_add(struct guard_socks *k, int fd, int family, uint64_t now_ms); /* takes fd on success; NULL: no room */
void socks_drop(struct guard_socks *k, struct sock_dup *s);
/* The duplicate of the caller's descriptor; -EBADF, -ENOTSOCK, -EISCONN: not one that the guard still has, -ESRCH: the caller is gone. */
int socks_find(const struct call *c, int fd, struct sock_dup **ret);
void socks_sweep(struct guard_socks *k, unsigned patience);
uint64_t socks_random(struct guard_socks *k);
int sock_address_read(const struct call *c, struct sock_address *ret); /* arguments 1 and 2 */
/* Once per turn; then, milliseconds until it wants to be called again, -1: never. */
void socks_tick(struct guard_socks *k, uint64_t now_ms);
int socks_timeout(const struct guard_socks *k, uint64_t now_ms);

/* guard_door.c: from here on the socket talks only to others with the key; and the opposite, for one that goes to the gate. 0 or -errno. */
int door_lock(const struct guard_socks *k, int sock, int family);
int door_unlock(const struct guard_socks *k, int sock, int family);

/* guard_sock_bind.c */
int sock_bind_source(struct guard_socks *k, int fd, int family,
                     struct sockaddr_in *ret); /* an address of its own; if it has none */
long guard_sock_make(struct call *c);
long guard_sock_bind(struct call *c);
long guard_sock_listen(struct call *c);

/* guard_sock_connect.c */
long guard_sock_connect(struct call *c);

/* guard_sock_unix.c: of a unix socket */
long sock_unix_bind(struct call *c, struct sock_dup *s, const struct sock_address *a);
long sock_unix_connect(struct call *c, struct sock_dup *s, const struct sock_address *a);
