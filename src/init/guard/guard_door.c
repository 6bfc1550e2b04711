/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect to a server inside, which is in the host's network. Each of its packets has to be signed (TCP_MD5SIG, RFC 2385) with a key that is the
 * guard's: the kernel drops what is not before it answers, so no process of the host and no other sandbox gets a connection. It is no secret from
 * those who can capture packets on loopback, which needs CAP_NET_RAW. What is accepted inherits the key. Commands cannot set or remove one
 * (jail/fence/seccomp_policy.h). A filter on the socket would do as well, but not every kernel lets users attach one.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "init/guard/guard_sock.h"

enum { PREFIX = 8, LOOPBACK_NET = 127 };

static int set_key(int sock, int family, const uint8_t *key, size_t len) {
    struct tcp_md5sig sig = {.tcpm_flags = TCP_MD5SIG_FLAG_PREFIX, .tcpm_prefixlen = PREFIX, .tcpm_keylen = (uint16_t)len};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl((uint32_t)LOOPBACK_NET << 24)}};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    memcpy(sig.tcpm_key, key, len);
    if (family == AF_INET) {
        memcpy(&sig.tcpm_addr, &in, sizeof in);
    } else {
        in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
        in6.sin6_addr.s6_addr[12] = LOOPBACK_NET;
        memcpy(&sig.tcpm_addr, &in6, sizeof in6);
    }
    return setsockopt(sock, IPPROTO_TCP, TCP_MD5SIG_EXT, &sig, sizeof sig) < 0 ? -errno : 0;
}

int door_lock(const struct guard_socks *k, int sock, int family) {
    int r = set_key(sock, family, k->key, sizeof k->key);

    return r == -ENOPROTOOPT ? -EACCES : r; /* a kernel without signatures: no servers inside */
}

int door_unlock(const struct guard_socks *k, int sock, int family) {
    int r = set_key(sock, family, k->key, 0);

    return r == -ENOENT || r == -ENOPROTOOPT ? 0 : r;
}
