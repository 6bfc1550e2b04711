/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name server for tests, on 127.0.0.1 and on the loop of whoever asks. The first label of a name says what happens:
 *
 *     a        one IPv4 address, 192.0.2.1               zero      the same with TTL 0
 *     both     192.0.2.1 and ::1                         mute6     the same, but it never answers for IPv6
 *     many     20 addresses: too many for UDP            alias     a CNAME that leads to 192.0.2.1
 *     none     NXDOMAIN                                  fail      SERVFAIL
 *     empty    no addresses                              dead      no answer at all
 *     wrong    an answer to another question             evil      an answer that is cut inside of a record
 */
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/str.h"
#include "proto/dns.h"

struct dns_server {
    uv_udp_t udp;
    uv_tcp_t tcp;
    char conf[64]; /* resolv.conf */
    unsigned udp_queries, tcp_queries;
    uint16_t ids[64];
};

struct dns_server_conn {
    uv_tcp_t tcp;
    struct dns_server *server;
    char in[600];
};

static void dns_server_add(uint8_t *m, size_t *at, unsigned type, uint32_t ttl, const void *data, size_t len) {
    uint8_t head[12] = {0xc0, 0x0c, (uint8_t)(type >> 8), (uint8_t)type, 0, 1,
                        0,    0,    (uint8_t)(ttl >> 8),  (uint8_t)ttl,  0, (uint8_t)len};

    memcpy(m + *at, head, 12);
    memcpy(m + *at + 12, data, len);
    *at += 12 + len;
    m[7]++;
}

/* The answer's length; 0: none. */
static size_t dns_server_answer(struct dns_server *s, const uint8_t *query, size_t len, bool tcp, uint8_t *out) {
    static const uint8_t ipv6[16] = {[15] = 1};
    struct dns_query q;
    size_t at = len, first;
    uint32_t ttl = 60;

    if (dns_query_parse(query, len, &q) != DNS_NOERROR)
        return 0;
    s->ids[(tcp ? s->tcp_queries++ : s->udp_queries++) % 64] = q.id;
    first = strcspn(q.name, ".");
    q.name[first] = 0;
    memcpy(out, query, len);
    out[2] = 0x81;
    out[3] = (uint8_t)(0x80 | (str_eq(q.name, "none") ? 3 : str_eq(q.name, "fail") ? 2 : 0));
    if (str_eq(q.name, "dead") || (str_eq(q.name, "mute6") && q.type == DNS_TYPE_AAAA))
        return 0;
    if (str_eq(q.name, "many") && !tcp) {
        out[2] |= 2;
        return at;
    }
    if (str_eq(q.name, "many") && q.type == DNS_TYPE_A)
        for (uint8_t i = 1; i <= 20; i++)
            dns_server_add(out, &at, DNS_TYPE_A, ttl, (uint8_t[]){192, 0, 2, i}, 4);
    if (str_eq(q.name, "zero"))
        ttl = 0;
    if (str_eq(q.name, "wrong"))
        out[13] = 'W' + 1;
    if (strstr("a zero mute6 both wrong evil", q.name) && q.type == DNS_TYPE_A)
        dns_server_add(out, &at, DNS_TYPE_A, ttl, (uint8_t[]){192, 0, 2, 1}, 4);
    if (str_eq(q.name, "both") && q.type == DNS_TYPE_AAAA)
        dns_server_add(out, &at, DNS_TYPE_AAAA, ttl, ipv6, 16);
    if (str_eq(q.name, "alias") && q.type == DNS_TYPE_A) {
        dns_server_add(out, &at, 5, 7, "\6target\4test", 13);
        memcpy(out + at, "\6target\4test\0\0\1\0\1\0\0\0\x3c\0\4\xc0\0\2\1", 27);
        at += 27;
        out[7]++;
    }
    return str_eq(q.name, "evil") && q.type == DNS_TYPE_A ? at - 3 : at;
}

static void dns_server_udp_buffer(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    static char space[2048];

    *buf = uv_buf_init(space, sizeof space);
}

static void dns_server_on_udp(uv_udp_t *udp, ssize_t n, const uv_buf_t *buf, const struct sockaddr *from, unsigned flags) {
    uint8_t out[2048];
    size_t len = n > 0 ? dns_server_answer(udp->data, (const uint8_t *)buf->base, (size_t)n, false, out) : 0;
    uv_buf_t answer = uv_buf_init((char *)out, (unsigned)len);

    if (len)
        uv_udp_try_send(udp, &answer, 1, from);
}

static void dns_server_tcp_buffer(uv_handle_t *h, size_t want, uv_buf_t *buf) {
    struct dns_server_conn *c = h->data;

    *buf = uv_buf_init(c->in, sizeof c->in);
}

static void dns_server_conn_closed(uv_handle_t *h) {
    free(h->data);
}

/* c-ares writes a question with its length in one piece. */
static void dns_server_on_tcp(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
    struct dns_server_conn *c = stream->data;
    uint8_t out[2048];
    ssize_t at = 0;

    while (n - at > 2) {
        size_t len = (size_t)((uint8_t)c->in[at] << 8 | (uint8_t)c->in[at + 1]);
        size_t answer_len = dns_server_answer(c->server, (uint8_t *)c->in + at + 2, len, true, out + 2);
        uv_buf_t answer = uv_buf_init((char *)out, (unsigned)answer_len + 2);

        out[0] = (uint8_t)(answer_len >> 8);
        out[1] = (uint8_t)answer_len;
        uv_try_write(stream, &answer, 1);
        at += 2 + (ssize_t)len;
    }
    if (n < 0)
        uv_close((uv_handle_t *)stream, dns_server_conn_closed);
}

static void dns_server_on_connection(uv_stream_t *listener, int status) {
    struct dns_server_conn *c = calloc(1, sizeof *c);

    c->server = listener->data;
    c->tcp.data = c;
    uv_tcp_init(listener->loop, &c->tcp);
    uv_accept(listener, (uv_stream_t *)&c->tcp);
    uv_read_start((uv_stream_t *)&c->tcp, dns_server_tcp_buffer, dns_server_on_tcp);
}

/* A socket of this type at this address, whose port may be 0 and is filled in then; -1: it is taken. */
static int dns_server_socket(int type, struct sockaddr_in *at) {
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len = sizeof *at;

    if (bind(fd, (struct sockaddr *)at, len) == 0 && getsockname(fd, (struct sockaddr *)at, &len) == 0)
        return fd;
    close(fd);
    return -1;
}

static int dns_server_start(struct dns_server *s, uv_loop_t *loop) {
    struct sockaddr_in at;
    int udp, tcp = -1, r;

    for (int tries = 0; tcp < 0; tries++) { /* a port that is free for one of them need not be for the other */
        at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        udp = dns_server_socket(SOCK_DGRAM, &at);
        if (udp < 0 || tries == 100)
            return UV_EADDRINUSE;
        tcp = dns_server_socket(SOCK_STREAM, &at);
        if (tcp < 0)
            close(udp);
    }
    uv_udp_init(loop, &s->udp);
    uv_tcp_init(loop, &s->tcp);
    s->udp.data = s->tcp.data = s;
    r = uv_udp_open(&s->udp, udp);
    if (r == 0)
        r = uv_tcp_open(&s->tcp, tcp);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&s->tcp, 16, dns_server_on_connection);
    if (r == 0)
        r = uv_udp_recv_start(&s->udp, dns_server_udp_buffer, dns_server_on_udp);
    snprintf(s->conf, sizeof s->conf, "nameserver [127.0.0.1]:%u\noptions timeout:1 attempts:1\n", ntohs(at.sin_port));
    return r;
}

static void dns_server_stop(struct dns_server *s) {
    uv_close((uv_handle_t *)&s->udp, NULL);
    uv_close((uv_handle_t *)&s->tcp, NULL);
}
