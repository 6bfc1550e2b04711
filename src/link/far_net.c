/* SPDX-License-Identifier: Apache-2.0 */
/* The listeners inside: connections and datagrams become channels. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/network/network.h"
#include "link/far.h"
#include "os/fd.h"

enum { ACCEPT_MAX = 16, SHOWN_BACKLOG = 128, KEEP_FREE = 64 /* numbers for terminals, files and published ports */ };

/* -- made once ------------------------------------------------------------------------------------------------------------- */

static int listen_shown(const char *path, struct err *err) {
    CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char folder[LINK_PATH_MAX];
    char *slash;

    static_assert(sizeof folder <= sizeof a.sun_path, "it fits");
    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    *slash = 0;
    if (folder[0])
        mkdir(folder, 0755); /* it may be there */
    memcpy(a.sun_path, path, strlen(path) + 1);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || chmod(path, 0666) < 0 || listen(fd, SHOWN_BACKLOG) < 0)
        return err_sys(err, -errno, "the socket '%s' inside", path);
    return TAKE_FD(fd);
}

static uint32_t inherited; /* set before anything else happens */

void far_net_inherit(uint32_t places) {
    inherited = places;
}

static void take_inherited(struct listeners *l) {
    for (size_t i = 0; i < NETWORK_FDS_MAX; i++)
        if (inherited >> i & 1) {
            l->fds[i] = FAR_FD_LISTENERS + (int)i;
            fcntl(l->fds[i], F_SETFD, FD_CLOEXEC);
        }
    l->has = (inherited >> NETWORK_FDS_MAX & 1 ? 0 : NETWORK_EVERY_PORT) | (inherited & FAR_REDIRECTED ? NETWORK_REDIRECTED : 0);
}

int far_net_make(const struct link_start *s, struct far_net *net, struct listeners *l, uint32_t *ret_places, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < LINK_PLACES; i++)
        net->tcp[i] = -1;
    *l = (struct listeners)LISTENERS_INIT;
    *ret_places = 0;
    if (s->flags & LINK_START_NETWORK) {
        if (inherited)
            take_inherited(l);
        else
            r = network_make(NETWORK_EVERYTHING, l, err);
        net->redirected = l->has & NETWORK_REDIRECTED;
        *ret_places = r == 0 && l->has & NETWORK_EVERY_PORT ? 0 : 1u << NETWORK_FDS_MAX;
    }
    for (size_t i = 0; r == 0 && i < NETWORK_FDS_MAX; i++) {
        *ret_places |= l->fds[i] >= 0 ? 1u << i : 0;
        if (i != NETWORK_UDP4 && i != NETWORK_UDP6)
            net->tcp[i] = TAKE_FD(l->fds[i]);
    }
    for (size_t i = 0; r >= 0 && i < LINK_PLACES_SHOWN; i++)
        if (s->shown[i][0])
            r = net->tcp[LINK_PLACES_NETWORK + i] = listen_shown(s->shown[i], err);
    return r < 0 ? r : 0;
}

void far_net_open(struct mux *m, struct listeners *l) {
    static const enum network_place places[] = {NETWORK_UDP4, NETWORK_UDP6};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        const struct link_open o = {.kind = LINK_DATAGRAMS, .place = (uint16_t)places[i]};
        struct chan *c;

        if (l->fds[places[i]] >= 0 && mux_open(m, &o, &c) == 0) {
            c->rfd = c->wfd = TAKE_FD(l->fds[places[i]]);
            c->io = CHAN_SOCKET;
        }
    }
}

/* -- connections ----------------------------------------------------------------------------------------------------------- */

static struct link_addr addr_of(const struct sockaddr_storage *s) {
    struct link_addr a = {.family = 0};

    if (s->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)s;

        a.family = 4;
        a.port = ntohs(in->sin_port);
        memcpy(a.ip, &in->sin_addr, 4);
    } else if (s->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)s;

        a.family = 6;
        a.port = ntohs(in6->sin6_port);
        memcpy(a.ip, &in6->sin6_addr, 16);
    }
    return a;
}

static socklen_t sockaddr_of(const struct link_addr *a, struct sockaddr_storage *ret) {
    *ret = (struct sockaddr_storage){0};
    if (a->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret;

        in->sin_family = AF_INET;
        in->sin_port = htons(a->port);
        memcpy(&in->sin_addr, a->ip, 4);
        return sizeof *in;
    }
    if (a->family == 6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(a->port);
        memcpy(&in6->sin6_addr, a->ip, 16);
        return sizeof *in6;
    }
    return 0;
}

size_t far_net_want(const struct far_net *net, struct pollfd *out) {
    size_t n = 0;

    for (size_t i = 0; i < LINK_PLACES; i++)
        if (net->tcp[i] >= 0)
            out[n++] = (struct pollfd){.fd = net->tcp[i], .events = POLLIN};
    return n;
}

/* What was connected to. A rule that redirects leaves loopback's own connections alone, and these it does not know. */
static int asked_address(int fd, bool redirected, struct sockaddr_storage *ret) {
    enum { ORIGINAL_DST = 80 /* SO_ORIGINAL_DST */ };
    socklen_t len = sizeof(struct sockaddr_in);

    *ret = (struct sockaddr_storage){0};
    if (redirected && getsockopt(fd, IPPROTO_IP, ORIGINAL_DST, ret, &len) == 0)
        return 0;
    len = sizeof *ret;
    return getsockname(fd, (struct sockaddr *)ret, &len);
}

static bool accept_one(struct mux *m, int listener, size_t place, bool redirected) {
    struct sockaddr_storage to, from = {0};
    socklen_t from_len = sizeof from;
    struct link_open o = {.kind = LINK_CONNECTION, .place = (uint16_t)place};
    CLEANUP(closep) int fd = accept4(listener, (struct sockaddr *)&from, &from_len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int on = 1;
    struct chan *c;

    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    if (place < LINK_PLACES_NETWORK) {
        if (asked_address(fd, redirected, &to) < 0)
            return true;
        o.to = addr_of(&to);
        o.from = addr_of(&from);
        setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    }
    if (mux_open(m, &o, &c) < 0)
        return false;
    c->rfd = c->wfd = TAKE_FD(fd);
    c->io = CHAN_SOCKET;
    return true;
}

/* Called when nothing waits to be written: there is room for what it opens. */
void far_net_accept(struct mux *m, const struct far_net *net, const struct pollfd *fds, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t place = 0; fds[i].revents && place < LINK_PLACES; place++)
            if (net->tcp[place] == fds[i].fd)
                for (int k = 0; k < ACCEPT_MAX && m->n_live + KEEP_FREE < LINK_CHANNELS / 2 &&
                                accept_one(m, fds[i].fd, place, net->redirected);
                     k++)
                    ;
}

/* -- datagrams ------------------------------------------------------------------------------------------------------------- */

union far_pktinfo {
    char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct cmsghdr align;
};

/* The address that was asked has to be the one that answers. */
static bool asked_of(struct msghdr *msg, struct link_addr *ret) {
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    *ret = (struct link_addr){.port = NETWORK_DNS_PORT};
    if (!c || msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC))
        return false;
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;

        memcpy(&info, CMSG_DATA(c), sizeof info);
        ret->family = 4;
        memcpy(ret->ip, &info.ipi_addr, 4);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;

        memcpy(&info, CMSG_DATA(c), sizeof info);
        ret->family = 6;
        memcpy(ret->ip, &info.ipi6_addr, 16);
    }
    return ret->family != 0;
}

size_t far_net_pull(struct chan *c, uint8_t *to, size_t max) {
    struct sockaddr_storage from;
    union far_pktinfo info;
    struct iovec iov = {to + LINK_DATAGRAM_HEAD, MIN_OF(max - LINK_DATAGRAM_HEAD, (size_t)LINK_DATAGRAM_MAX)};
    struct msghdr msg = {.msg_name = &from,
                         .msg_namelen = sizeof from,
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &info,
                         .msg_controllen = sizeof info};
    ssize_t n = recvmsg(c->rfd, &msg, MSG_DONTWAIT);
    struct link_addr asker, asked;

    if (n < 0 || !asked_of(&msg, &asked))
        return 0;
    asker = addr_of(&from);
    link_addr_encode(&asker, to);
    link_addr_encode(&asked, to + LINK_ADDR);
    return LINK_DATAGRAM_HEAD + (size_t)n;
}

static void put_source(struct msghdr *msg, const struct link_addr *from) {
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    struct in_pktinfo info4 = {0};
    struct in6_pktinfo info6 = {0};

    memcpy(from->family == 4 ? (void *)&info4.ipi_spec_dst : (void *)&info6.ipi6_addr, from->ip, from->family == 4 ? 4 : 16);
    c->cmsg_level = from->family == 4 ? IPPROTO_IP : IPPROTO_IPV6;
    c->cmsg_type = from->family == 4 ? IP_PKTINFO : IPV6_PKTINFO;
    c->cmsg_len = from->family == 4 ? CMSG_LEN(sizeof info4) : CMSG_LEN(sizeof info6);
    memcpy(CMSG_DATA(c), from->family == 4 ? (void *)&info4 : (void *)&info6, from->family == 4 ? sizeof info4 : sizeof info6);
    msg->msg_controllen = from->family == 4 ? CMSG_SPACE(sizeof info4) : CMSG_SPACE(sizeof info6);
}

/* An answer that cannot be sent is lost, as is the way of UDP. */
void far_net_datagram(struct chan *c, const uint8_t *bytes, size_t len) {
    struct link_addr asker, asked;
    struct sockaddr_storage to;
    union far_pktinfo info = {{0}};
    struct iovec iov;
    struct msghdr msg = {.msg_name = &to, .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &info, .msg_controllen = sizeof info};

    if (len < LINK_DATAGRAM_HEAD || link_addr_decode(bytes, &asker) < 0 || link_addr_decode(bytes + LINK_ADDR, &asked) < 0 ||
        !asker.family || asker.family != asked.family)
        return;
    iov = (struct iovec){(void *)(uintptr_t)(bytes + LINK_DATAGRAM_HEAD), len - LINK_DATAGRAM_HEAD};
    msg.msg_namelen = sockaddr_of(&asker, &to);
    put_source(&msg, &asked);
    (void)!sendmsg(c->wfd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}
