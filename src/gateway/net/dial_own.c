/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts on addresses: the machine's own ones, and those behind a translator. */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "gateway/net/dial.h"
#include "os/fd.h"

enum { OWN_CACHE_MS = 1000 };

socklen_t sockaddr_make(const struct addr *a, uint16_t port, struct sockaddr_storage *ret) {
    memset(ret, 0, sizeof *ret);
    if (a->len == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret;

        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, a->b, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, a->b, 16);
    return sizeof *in6;
}

bool sockaddr_read(const struct sockaddr_storage *from, struct addr *ret, uint16_t *ret_port) {
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)from;

        *ret = (struct addr){.len = 4};
        memcpy(ret->b, &in->sin_addr, 4);
        *ret_port = ntohs(in->sin_port);
        return true;
    }
    if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;

        *ret = (struct addr){.len = 16};
        memcpy(ret->b, &in6->sin6_addr, 16);
        *ret_port = ntohs(in6->sin6_port);
        return true;
    }
    return false;
}

/* There is no way to it: it cannot be dialled either. Everything else (no descriptor, no port left) says nothing about the address. */
static bool has_no_route(int error) {
    static const int errors[] = {ENETUNREACH, EHOSTUNREACH, ENETDOWN, EACCES, EPERM, EINVAL, EAFNOSUPPORT, EADDRNOTAVAIL};

    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        if (errors[i] == error)
            return true;
    return false;
}

/* A datagram socket that is connected to one of the machine's own addresses gets that address itself, or, by a route of kind
 * "local", perhaps one of loopback; nothing is sent by it. Asking the kernel each time, not listing interfaces once: addresses come
 * and go, and netlink is not in the jail. If it cannot be asked, the address is taken for our own. */
static bool is_own_now(const struct addr *a) {
    CLEANUP(closep) int fd = socket(a->len == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage to, mine;
    socklen_t len = sockaddr_make(a, 9, &to), mine_len = sizeof mine;
    struct addr source;
    uint16_t port;

    if (fd < 0)
        return errno != EAFNOSUPPORT;
    if (connect(fd, (struct sockaddr *)&to, len) < 0)
        return !has_no_route(errno);
    if (getsockname(fd, (struct sockaddr *)&mine, &mine_len) < 0 || !sockaddr_read(&mine, &source, &port))
        return true;
    return addr_eq(&source, a) || addr_classify(&source, NULL, 0).class == ADDR_LOOPBACK;
}

/* Inspected connections ask for each request. */
static bool is_own_cached(struct gate *g, const struct addr *a) {
    struct own_addr *slot = &g->own[(a->b[a->len - 1] ^ a->b[a->len - 2]) % GATE_OWN_CACHE];
    uint64_t now = uv_now(&g->loop);

    if (slot->until_ms <= now || !addr_eq(&slot->addr, a))
        *slot = (struct own_addr){.addr = *a, .own = is_own_now(a), .until_ms = now + OWN_CACHE_MS};
    return slot->own;
}

enum { OWN_MAX = 2 + ADDR_INNER_MAX };

static size_t find_own(struct gate *g, const struct addr *a, struct addr own[static OWN_MAX]) {
    struct addr tried[OWN_MAX] = {addr_unmapped(a)};
    size_t n = 1 + addr_inner(&tried[0], &tried[1]), found = 0;

    n += addr_may_be_nat64(&tried[0], &tried[n]);
    for (size_t i = 0; i < n; i++)
        if (addr_classify(&tried[i], NULL, 0).class != ADDR_LOOPBACK && is_own_cached(g, &tried[i]))
            own[found++] = tried[i];
    return found;
}

static void judge_once(struct gate *g, const struct policy_request *given, struct policy_verdict *ret) {
    struct policy_request req = *given;
    const struct addr *address = req.host->kind != HOST_NAME ? &req.host->addr : req.address;
    struct addr own[OWN_MAX];
    size_t n = address ? find_own(g, address, own) : 0;
    struct host nowhere;

    req.terse = true;
    if ((n || g->policy.n_own) && policy_set_own(&g->policy, own, n, NULL) < 0) { /* no memory: as what is never dialled */
        host_from_addr(&(struct addr){.len = 4}, &nowhere);
        req = (struct policy_request){.host = &nowhere, .port = req.port};
    }
    policy_judge(&g->policy, &req, ret);
}

static bool is_public(struct gate *g, const struct addr *a) {
    struct addr own[OWN_MAX];
    size_t n = find_own(g, a, own);

    return addr_classify(a, own, n).class == ADDR_PUBLIC;
}

/* The host is an address that the client names. Rules name the one that is dialled, so of the other one only denials of it count, and, unless a rule
 * has exactly this address, what it is. */
static void judge_literal_inside(struct gate *g, const struct policy_request *given, const struct addr *inner,
                                 struct policy_verdict *ret) {
    struct policy_request req = *given;
    struct policy_verdict inside;
    struct host host;

    host_from_addr(inner, &host);
    req.host = &host;
    judge_once(g, &req, &inside);
    if (inside.code == POLICY_DENIED_ADDRESS)
        *ret = inside;
    else if (!is_public(g, inner) && !str_eq(ret->pattern, given->host->text))
        policy_refuse(POLICY_DENIED_ADDRESS, given->host->text, "a translator of the network carries it to one", ret);
}

/* What a translator of the host's network carries to an IPv4 address has to be allowed there, too. */
static void judge_both(struct gate *g, const struct policy_request *given, struct policy_verdict *ret) {
    const struct addr *address = given->host->kind != HOST_NAME ? &given->host->addr : given->address;
    struct policy_request req = *given;
    struct policy_verdict inside;
    struct addr inner;

    judge_once(g, given, ret);
    if (!address || ret->action == RULE_DENY || !nat64_inner(&g->nat64, address, &inner))
        return;
    if (given->host->kind != HOST_NAME) {
        judge_literal_inside(g, given, &inner, ret);
        return;
    }
    req.address = &inner;
    judge_once(g, &req, &inside);
    if (inside.action < ret->action)
        *ret = inside;
}

void gate_judge(struct gate *g, const struct policy_request *given, struct policy_verdict *ret) {
    judge_both(g, given, ret);
    if (g->meter && ret->action != RULE_DENY && meter_over(g->meter))
        policy_refuse(POLICY_QUOTA, given->host->text, NULL, ret);
}
