/* SPDX-License-Identifier: Apache-2.0 */
/* The name server on its sockets. The gate around it is made by hand; what it logs is counted here. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "dns_query.h"
#include "gateway/gate.h"
#include "gateway/net/dnsd.h"

static const char rules[] = "{\"mode\": \"list\", \"rules\": [{\"action\": \"allow\", \"host\": \"**.example.com\"}]}";

struct scene {
    struct gate gate;
    uint16_t port;
    unsigned events;
    char last[256];
};

uint64_t gate_now_s(const struct gate *g) {
    return uv_now(&g->loop) / 1000;
}

void gate_event(struct gate *g, enum gate_event_kind kind, uint64_t flow, const char *host, uint16_t port,
                const struct policy_verdict *v) {
    struct scene *s = (struct scene *)g;

    assert_int_equal(kind, GATE_EVENT_LOOKUP);
    assert_int_equal(v->action, RULE_DENY);
    snprintf(s->last, sizeof s->last, "%s", host);
    s->events++;
}

static int bound_udp(int family, uint16_t *port) {
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
    struct sockaddr_in a4 = {.sin_family = AF_INET};
    struct sockaddr *a = family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
    socklen_t len = family == AF_INET ? sizeof a4 : sizeof a6;

    assert_true(fd >= 0);
    if (family == AF_INET6)
        assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one), 0);
    assert_int_equal(bind(fd, a, len), 0);
    assert_int_equal(getsockname(fd, a, &len), 0);
    *port = ntohs(family == AF_INET ? a4.sin_port : a6.sin6_port);
    return fd;
}

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    struct rules r = {0};
    struct err err = {0};

    assert_non_null(s);
    assert_int_equal(uv_loop_init(&s->gate.loop), 0);
    assert_int_equal(policy_init(&s->gate.policy, NET_UNSET, false, &err), 0);
    assert_int_equal(rules_read("p.json", rules, strlen(rules), &r, &err), 0);
    policy_set_layer(&s->gate.policy, LAYER_USER, &r, false);
    assert_int_equal(names_new(&s->gate.names), 0);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    dnsd_free(s->gate.dnsd);
    uv_run(&s->gate.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->gate.loop), 0);
    names_free(s->gate.names);
    policy_done(&s->gate.policy);
    free(s);
    return 0;
}

static void start(struct scene *s, int udp4, int udp6) {
    struct err err = {0};

    if (dnsd_new(&s->gate, udp4, udp6, &s->gate.dnsd, &err) < 0)
        fail_msg("%s", err.msg);
}

static size_t receive(struct scene *s, int fd, void *buf, size_t len) {
    ssize_t n;

    while ((n = recv(fd, buf, len, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
        uv_run(&s->gate.loop, UV_RUN_ONCE);
    return n < 0 ? 0 : (size_t)n;
}

/* A socket that takes answers only from the address it asked. */
static int asker(int family, const char *to, uint16_t port, const char *name) {
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint8_t query[DNS_QUERY_MAX];
    size_t len = make_query(query, name, DNS_TYPE_A, true);

    assert_int_equal(inet_pton(family, to, family == AF_INET ? (void *)&a4.sin_addr : (void *)&a6.sin6_addr), 1);
    assert_int_equal(connect(fd, family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6,
                             family == AF_INET ? sizeof a4 : sizeof a6),
                     0);
    assert_int_equal(send(fd, query, len, 0), len);
    return fd;
}

static void check_answer(struct scene *s, int fd, unsigned rcode, unsigned records) {
    uint8_t answer[DNS_ANSWER_MAX];

    assert_true(receive(s, fd, answer, sizeof answer) > 12);
    assert_int_equal(answer[3] & 15, rcode);
    assert_int_equal(answer[7], records);
    close(fd);
}

static void test_udp_answers_from_the_asked_address(void **state) {
    struct scene *s = *state;
    uint16_t port4, port6;
    int udp4 = bound_udp(AF_INET, &port4), udp6 = bound_udp(AF_INET6, &port6);
    int early = asker(AF_INET, "127.3.2.1", port4, "early.example.com"); /* before the gate is there: it starts gates */

    start(s, udp4, udp6);
    check_answer(s, early, DNS_NOERROR, 1);
    check_answer(s, asker(AF_INET, "127.0.0.1", port4, "a.example.com"), DNS_NOERROR, 1);
    check_answer(s, asker(AF_INET, "127.9.9.9", port4, "a.example.com"), DNS_NOERROR, 1);
    check_answer(s, asker(AF_INET6, "::1", port6, "b.example.com"), DNS_NOERROR, 1);
    assert_int_equal(s->events, 0);
    check_answer(s, asker(AF_INET, "127.0.0.1", port4, "secret.evil.net"), DNS_NXDOMAIN, 0);
    check_answer(s, asker(AF_INET6, "::1", port6, "secret.evil.net"), DNS_NXDOMAIN, 0);
    assert_int_equal(s->events, 2);
    assert_string_equal(s->last, "secret.evil.net");
}

static void test_udp_garbage(void **state) {
    struct scene *s = *state;
    uint8_t big[4000] = {0};
    uint16_t port;
    int fd;

    start(s, bound_udp(AF_INET, &port), -1);
    fd = asker(AF_INET, "127.0.0.1", port, "a.example.com");
    assert_int_equal(send(fd, "", 0, 0), 0);
    assert_int_equal(send(fd, "\x81\x80", 2, 0), 2);
    assert_int_equal(send(fd, big, sizeof big, 0), sizeof big);
    for (int i = 0; i < 3 * DNSD_BATCH; i++)
        assert_int_equal(send(fd, "x", 1, 0), 1);
    check_answer(s, fd, DNS_NOERROR, 1);
    check_answer(s, asker(AF_INET, "127.0.0.1", port, "b.example.com"), DNS_NOERROR, 1);
}

static int connection(struct scene *s) {
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    dnsd_accept(s->gate.dnsd, pair[0]);
    return pair[1];
}

static size_t framed(uint8_t *out, const char *name, uint8_t id) {
    size_t len = make_query(out + 2, name, DNS_TYPE_A, false);

    out[0] = (uint8_t)(len >> 8);
    out[1] = (uint8_t)len;
    out[2] = id;
    return 2 + len;
}

static void receive_all(struct scene *s, int fd, uint8_t *buf, size_t len) {
    for (size_t at = 0, n; at < len; at += n) {
        n = receive(s, fd, buf + at, len - at);
        assert_true(n > 0);
    }
}

static void check_framed(struct scene *s, int fd, uint8_t id) {
    uint8_t answer[2 + DNS_ANSWER_MAX];

    receive_all(s, fd, answer, 2);
    receive_all(s, fd, answer + 2, (size_t)(answer[0] << 8 | answer[1]));
    assert_int_equal(answer[2], id);
    assert_int_equal(answer[5] & 15, DNS_NOERROR);
}

static void test_tcp_byte_by_byte(void **state) {
    struct scene *s = *state;
    uint8_t query[DNS_QUERY_MAX];
    size_t len = framed(query, "a.example.com", 1);
    int fd;

    start(s, -1, -1);
    fd = connection(s);
    for (int times = 0; times < 2; times++) {
        for (size_t i = 0; i < len; i++) {
            assert_int_equal(send(fd, query + i, 1, 0), 1);
            uv_run(&s->gate.loop, UV_RUN_NOWAIT);
        }
        check_framed(s, fd, 1);
    }
    close(fd);
}

/* More than one turn of the loop takes, and more than the client reads in the meantime. */
static void test_tcp_pipelined(void **state) {
    enum { MANY = 250 };
    struct scene *s = *state;
    static uint8_t all[MANY * 64];
    size_t len = 0;
    int fd;

    start(s, -1, -1);
    fd = connection(s);
    for (unsigned i = 0; i < MANY; i++)
        len += framed(all + len, "a.example.com", (uint8_t)i);
    assert_int_equal(send(fd, all, len, 0), len);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    for (unsigned i = 0; i < MANY; i++)
        check_framed(s, fd, (uint8_t)i);
    assert_int_equal(receive(s, fd, all, 1), 0);
    close(fd);
}

static void test_tcp_slow_reader(void **state) {
    struct scene *s = *state;
    uint8_t query[DNS_QUERY_MAX];
    size_t len = framed(query, "a.example.com", 7), sent = 0, whole;
    int fd, small = 1;

    start(s, -1, -1);
    fd = connection(s);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    while (send(fd, query, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len) {
        sent++;
        uv_run(&s->gate.loop, UV_RUN_NOWAIT);
    }
    whole = sent; /* the socket is full both ways: the server stopped reading instead of keeping answers */
    assert_true(whole > 1);
    for (size_t i = 0; i < whole; i++)
        check_framed(s, fd, 7);
    close(fd);
}

static void test_tcp_nonsense_is_closed(void **state) {
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        {"\0\0", 2}, {"\0\xb", 2}, {"\xff\xff", 2}, {"GET / HTTP/1.1\r\n", 16}, {"\0\xc\x12\x34\x81\x80\0\0\0\0\0\0\0\0", 14}};
    struct scene *s = *state;
    uint8_t byte;

    start(s, -1, -1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int fd = connection(s);

        assert_int_equal(send(fd, rows[i].bytes, rows[i].len, 0), rows[i].len);
        assert_int_equal(receive(s, fd, &byte, 1), 0);
        close(fd);
    }
}

static void test_tcp_too_many(void **state) {
    struct scene *s = *state;
    uint8_t query[DNS_QUERY_MAX], byte;
    size_t len = framed(query, "a.example.com", 9);
    int fds[DNSD_CONNECTIONS_MAX], more;

    start(s, -1, -1);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fds[i] = connection(s);
    more = connection(s);
    assert_int_equal(recv(more, &byte, 1, 0), 0);
    close(more);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        assert_int_equal(send(fds[i], query, len, 0), len);
        check_framed(s, fds[i], 9);
    }
    close(fds[3]);
    uv_run(&s->gate.loop, UV_RUN_ONCE);
    fds[3] = connection(s);
    assert_int_equal(send(fds[3], query, len, 0), len);
    check_framed(s, fds[3], 9);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) /* they are still open at the other end when the server goes */
        close(fds[i]);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_udp_answers_from_the_asked_address),
        T(test_udp_garbage),
        T(test_tcp_byte_by_byte),
        T(test_tcp_pipelined),
        T(test_tcp_slow_reader),
        T(test_tcp_nonsense_is_closed),
        T(test_tcp_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
