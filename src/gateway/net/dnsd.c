/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/net/dnsd.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "gateway/gate.h"
#include "gateway/net/dnsd_priv.h"
#include "os/fd.h"

struct dnsd_udp {
    uv_poll_t poll;
    struct dnsd *dnsd;
    int fd;
};

/* The address that was asked is the one that has to answer, so it travels beside the question and back beside the answer. */
union pktinfo {
    char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct cmsghdr align;
};

size_t dnsd_reply(struct dnsd *d, const uint8_t *query, size_t len, uint8_t *out, size_t size) {
    struct gate *g = d->gate;
    struct dnsd_view view = {.policy = &g->policy, .names = g->names, .now_s = gate_now_s(g), .ipv6 = d->ipv6};
    struct dnsd_refusal refusal;
    size_t n = dnsd_answer(&view, query, len, out, size, &refusal);

    if (refusal.refused)
        gate_event(g, GATE_EVENT_LOOKUP, 0, refusal.host, 0, &refusal.verdict);
    return n;
}

/*
 * ipi_addr, not ipi_spec_dst: the kernel fills the second one in when a packet is queued, and the question that started this
 * gate was queued before IP_PKTINFO was asked for. In the sandbox's namespace every address is local: both are the same.
 */
static bool turn_pktinfo(struct msghdr *msg) {
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    if (!c || msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC))
        return false;
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;

        memcpy(&info, CMSG_DATA(c), sizeof info);
        info = (struct in_pktinfo){.ipi_spec_dst = info.ipi_addr};
        memcpy(CMSG_DATA(c), &info, sizeof info);
        return true;
    }
    if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;

        memcpy(&info, CMSG_DATA(c), sizeof info);
        info.ipi6_ifindex = 0;
        memcpy(CMSG_DATA(c), &info, sizeof info);
        return true;
    }
    return false;
}

/* False when there is nothing left to read. An answer that cannot be sent is lost, as is the way of UDP. */
static bool answer_one(struct dnsd_udp *u) {
    uint8_t query[DNS_QUERY_MAX + 1], answer[DNS_ANSWER_MAX];
    struct sockaddr_storage from;
    union pktinfo info;
    struct iovec iov = {query, sizeof query};
    struct msghdr msg = {.msg_name = &from,
                         .msg_namelen = sizeof from,
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &info,
                         .msg_controllen = sizeof info};
    ssize_t n = recvmsg(u->fd, &msg, MSG_DONTWAIT);

    if (n < 0)
        return errno == EINTR;
    if (!turn_pktinfo(&msg))
        return true;
    iov = (struct iovec){answer, dnsd_reply(u->dnsd, query, (size_t)n, answer, sizeof answer)};
    msg.msg_flags = 0;
    if (iov.iov_len)
        (void)!sendmsg(u->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    for (int i = 0; i < DNSD_BATCH && answer_one(poll->data); i++)
        ;
}

static void on_udp_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void udp_close(struct dnsd_udp *u) {
    if (!u)
        return;
    uv_close((uv_handle_t *)&u->poll, on_udp_closed);
    closep(&u->fd);
}

/* IPv6 sends from an address that no device has only if it is told so; for IPv4 the local route is enough. */
static int set_options(int fd, int family) {
    int one = 1, r;

    if (family == AF_INET)
        return setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one) < 0 ? -errno : 0;
    r = setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
    if (r == 0)
        r = setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &one, sizeof one);
    return r < 0 ? -errno : 0;
}

/* Takes fd. */
static int udp_open(struct dnsd *d, int fd, int family, struct dnsd_udp **ret, struct err *err) {
    CLEANUP(closep) int owned = fd;
    struct dnsd_udp *u;
    int r = set_options(owned, family);

    if (r < 0)
        return err_sys(err, r, "ask the DNS socket for the addresses that were asked");
    u = calloc(1, sizeof *u);
    if (!u)
        return err_oom(err);
    r = uv_poll_init(&d->gate->loop, &u->poll, owned);
    if (r < 0) {
        free(u);
        return err_set(err, r, "watch the DNS socket: %s", uv_strerror(r));
    }
    u->poll.data = u;
    u->dnsd = d;
    u->fd = TAKE_FD(owned);
    r = uv_poll_start(&u->poll, UV_READABLE, on_readable);
    if (r < 0) {
        udp_close(u);
        return err_set(err, r, "watch the DNS socket: %s", uv_strerror(r));
    }
    *ret = u;
    return 0;
}

int dnsd_new(struct gate *g, int udp4, int udp6, struct dnsd **ret, struct err *err) {
    CLEANUP(closep) int fd4 = udp4;
    CLEANUP(closep) int fd6 = udp6;
    struct dnsd *d = calloc(1, sizeof *d);
    int r = 0;

    if (!d)
        return err_oom(err);
    d->gate = g;
    d->ipv6 = fd6 >= 0;
    if (fd4 >= 0)
        r = udp_open(d, TAKE_FD(fd4), AF_INET, &d->udp[0], err);
    if (r == 0 && fd6 >= 0)
        r = udp_open(d, TAKE_FD(fd6), AF_INET6, &d->udp[1], err);
    if (r < 0) {
        dnsd_free(d);
        return r;
    }
    *ret = d;
    return 0;
}

void dnsd_free(struct dnsd *d) {
    if (!d)
        return;
    for (size_t i = 0; i < ARRAY_LEN(d->udp); i++)
        udp_close(d->udp[i]);
    while (d->conns)
        dnsd_conn_close(d->conns);
    free(d);
}
