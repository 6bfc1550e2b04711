/* SPDX-License-Identifier: Apache-2.0 */
/* The name server: UDP and TCP. */
#include "gateway/net/dnsd.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include "gateway/gate.h"
#include "gateway/net/delivery.h"
#include "os/fd.h"
#include "proto/dns.h"

enum { FRAME = 2 };

struct dnsd_conn;

struct dnsd {
    struct gate *gate;
    struct dnsd_udp *udp[2]; /* IPv4, IPv6 */
    bool ipv6;
    struct dnsd_conn *conns; /* list */
    size_t n_conns;
};

struct dnsd_udp {
    uv_poll_t poll;
    struct dnsd *dnsd;
    int fd;
    bool delivered; /* no UDP socket: gateway/net/delivery.h */
};

/* The address that was asked is the one that has to answer, so it travels beside the question and back beside the answer. */
union pktinfo {
    char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    struct cmsghdr align;
};

/* dnsd_answer() for this gate, with the log written. */
static size_t dnsd_reply(struct dnsd *d, const uint8_t *query, size_t len, uint8_t *out, size_t size) {
    struct gate *g = d->gate;
    const struct dnsd_view view = {
        .policy = &g->policy, .names = g->names, .now_s = gate_now_s(g), .ipv6 = d->ipv6, .answers_denied = g->captures_all};
    struct dnsd_refusal refusal;
    size_t n = dnsd_answer(&view, query, len, out, size, &refusal);

    if (refusal.refused && !refusal.again)
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

/* The same where another one has the UDP socket. */
static bool answer_delivered(struct dnsd_udp *u) {
    uint8_t head[DELIVERY_HEAD], query[DNS_QUERY_MAX + 1], answer[DNS_ANSWER_MAX];
    long n = delivery_recv(u->fd, head, query, sizeof query);
    size_t len;

    if (n == -EPIPE) /* the sandbox is gone */
        uv_poll_stop(&u->poll);
    if (n < 0)
        return n == -EBADMSG;
    len = dnsd_reply(u->dnsd, query, (size_t)n, answer, sizeof answer);
    if (len)
        delivery_send(u->fd, head, answer, len);
    return true;
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
    struct dnsd_udp *u = poll->data;

    for (int i = 0; i < DNSD_BATCH && (u->delivered ? answer_delivered(u) : answer_one(u)); i++)
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

/* IPv6 sends from an address that no device has only with this option; for IPv4 the local route is enough. */
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
    bool delivered = r < 0 && delivery_is(owned);

    if (r < 0 && !delivered)
        return err_sys(err, r, "set up the DNS socket");
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
    u->delivered = delivered;
    r = uv_poll_start(&u->poll, UV_READABLE, on_readable);
    if (r < 0) {
        udp_close(u);
        return err_set(err, r, "watch the DNS socket: %s", uv_strerror(r));
    }
    *ret = u;
    return 0;
}

/* DNS over TCP: questions one after the other, answered in order. Nothing is read while an answer waits to be sent. */
struct dnsd_conn {
    struct dnsd *dnsd;
    struct dnsd_conn *prev, *next;
    int fd;
    uv_poll_t poll;
    uv_timer_t idle;
    unsigned handles; /* that the loop still knows */
    uint8_t in[FRAME + DNS_QUERY_MAX], out[FRAME + DNS_ANSWER_MAX];
    size_t in_len, out_len, out_at;
    bool ended;    /* the client will send no more */
    bool messages; /* no stream: each message is a question, or an answer (init/guard/guard_sock.h, names by UDP) */
};

static void on_closed(uv_handle_t *handle) {
    struct dnsd_conn *c = handle->data;

    if (--c->handles == 0)
        free(c);
}

static void dnsd_conn_close(struct dnsd_conn *c) {
    struct dnsd *d = c->dnsd;

    *(c->prev ? &c->prev->next : &d->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    d->n_conns--;
    uv_close((uv_handle_t *)&c->poll, on_closed);
    uv_close((uv_handle_t *)&c->idle, on_closed);
    closep(&c->fd);
}

static void on_idle(uv_timer_t *timer) {
    dnsd_conn_close(timer->data);
}

/* 1: all is sent, 0: the client has to read first, negative: it is gone. */
static int send_answer(struct dnsd_conn *c) {
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        c->out_at += (size_t)n;
    }
    c->out_at = c->out_len = 0;
    return 1;
}

/* 1: a question was answered, 0: it is not all here, negative: no question of ours. Only whole questions buy time. */
static int answer_next(struct dnsd_conn *c) {
    int len = dns_frame(c->in, c->in_len);
    size_t n;

    if (len <= 0)
        return len;
    n = dnsd_reply(c->dnsd, c->in + FRAME, (size_t)len, c->out + FRAME, sizeof c->out - FRAME);
    if (n == 0)
        return -EBADMSG;
    c->out[0] = (uint8_t)(n >> 8);
    c->out[1] = (uint8_t)n;
    c->out_len = FRAME + n;
    c->out_at = c->messages ? FRAME : 0;
    c->in_len -= FRAME + (size_t)len;
    memmove(c->in, c->in + FRAME + len, c->in_len);
    uv_timer_again(&c->idle);
    return 1;
}

/* As receive_query(), with the length that a stream would have in front. There is nothing before it: each is answered at once. */
static int receive_message(struct dnsd_conn *c) {
    ssize_t n = recv(c->fd, c->in + FRAME, DNS_QUERY_MAX, MSG_DONTWAIT | MSG_TRUNC);

    if (n < 0)
        return errno == EAGAIN ? 0 : errno == EINTR ? 1 : -errno;
    if (n > DNS_QUERY_MAX)
        return -EMSGSIZE;
    c->ended |= n == 0;
    c->in[0] = (uint8_t)(n >> 8);
    c->in[1] = (uint8_t)n;
    c->in_len = n > 0 ? FRAME + (size_t)n : 0;
    return n > 0;
}

/* 1: bytes came, 0: none for now, negative: the connection failed. */
static int receive_query(struct dnsd_conn *c) {
    ssize_t n;

    if (c->messages)
        return receive_message(c);
    n = recv(c->fd, c->in + c->in_len, sizeof c->in - c->in_len, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN ? 0 : errno == EINTR ? 1 : -errno;
    c->ended |= n == 0;
    c->in_len += (size_t)n;
    return n > 0;
}

/* 1: the turn is used up, 0: waits for the client, negative: over. */
static int step_conn(struct dnsd_conn *c) {
    int r = send_answer(c);

    if (r <= 0)
        return r;
    r = answer_next(c);
    if (r != 0)
        return r;
    r = c->ended ? 0 : receive_query(c);
    return r == 0 && c->ended ? -ECONNRESET : r;
}

static void on_ready(uv_poll_t *poll, int status, int events) {
    struct dnsd_conn *c = poll->data;
    int r = status < 0 ? status : 1;

    for (int i = 0; i < DNSD_BATCH && r > 0; i++)
        r = step_conn(c);
    /* A client that sent many questions at once and waits: the socket is not readable again for those that are here already. */
    if (r >= 0)
        r = uv_poll_start(poll, c->out_len || dns_frame(c->in, c->in_len) ? UV_WRITABLE : UV_READABLE, on_ready);
    if (r < 0)
        dnsd_conn_close(c);
}

static struct dnsd_conn *conn_new(struct dnsd *d, int fd) {
    struct dnsd_conn *c = calloc(1, sizeof *c);

    if (!c || uv_poll_init(&d->gate->loop, &c->poll, fd) < 0) {
        free(c);
        return NULL;
    }
    uv_timer_init(&d->gate->loop, &c->idle);
    c->poll.data = c->idle.data = c;
    c->handles = 2;
    c->dnsd = d;
    c->fd = fd;
    c->messages = delivery_is(fd);
    c->next = d->conns;
    if (c->next)
        c->next->prev = c;
    d->conns = c;
    d->n_conns++;
    return c;
}

void dnsd_accept(struct dnsd *d, int fd) {
    CLEANUP(closep) int owned = fd;
    struct dnsd_conn *c = d->n_conns < DNSD_CONNECTIONS_MAX ? conn_new(d, owned) : NULL;

    if (!c)
        return;
    (void)TAKE_FD(owned);
    if (uv_timer_start(&c->idle, on_idle, DNSD_IDLE_MS, DNSD_IDLE_MS) < 0 || uv_poll_start(&c->poll, UV_READABLE, on_ready) < 0)
        dnsd_conn_close(c);
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
