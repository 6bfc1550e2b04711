/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real namespace of its own for every test: a child makes it and the listeners, sends them here, and then makes any socket that is
 * asked for. A socket stays in the namespace in which it was made, so this process plays both the inside and the outside.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "jail/network/network.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"

enum { NOBODY = 65534, INSIDE_ID = 1000 };

struct wish {
    int family, type, protocol;
};

struct scene {
    struct listeners n;
    int inside; /* the child */
    pid_t child;
};

static void child_main(int sock, unsigned want, bool as_user) {
    struct listeners n;
    struct err err = {0};
    struct wish w;
    char map[32];
    unsigned uid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (as_user && getuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
        _exit(10);
    prctl(PR_SET_DUMPABLE, 1); /* else /proc/self is root's */
    uid = getuid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        _exit(11);
    snprintf(map, sizeof map, "%d %u 1", INSIDE_ID, uid);
    if (fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map) < 0)
        _exit(12);
    if (network_make(want, &n, &err) < 0 || network_send(sock, &n, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        _exit(13);
    }
    network_done(&n);
    while (sock_recv(sock, &w, sizeof w, NULL, NULL) == (long)sizeof w) {
        int fd = socket(w.family, w.type | SOCK_CLOEXEC, w.protocol), code = fd < 0 ? errno : 0;

        sock_send(sock, &code, sizeof code, &fd, fd >= 0);
        closep(&fd);
    }
    _exit(0);
}

static struct scene begin(unsigned want, bool as_user) {
    struct scene s = {.n = LISTENERS_INIT};
    struct err err = {0};
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    s.child = fork();
    if (s.child == 0) {
        close(pair[0]);
        child_main(pair[1], want, as_user);
    }
    close(pair[1]);
    s.inside = pair[0];
    if (network_receive(s.inside, &s.n, &err) < 0) {
        int status = 0;

        waitpid(s.child, &status, 0);
        fail_msg("%s (child: %x)", err.msg, status);
    }
    return s;
}

static void end(struct scene *s) {
    int status;

    closep(&s->inside);
    network_done(&s->n);
    assert_int_equal(waitpid(s->child, &status, 0), s->child);
    assert_int_equal(status, 0);
}

/* A socket of the inside, or -errno. */
static int wish(const struct scene *s, int family, int type, int protocol) {
    struct wish w = {family, type, protocol};
    int fd = -1, code = 0;
    size_t n = 1;

    assert_int_equal(sock_send(s->inside, &w, sizeof w, NULL, 0), 0);
    assert_int_equal(sock_recv(s->inside, &code, sizeof code, &fd, &n), (long)sizeof code);
    return n == 1 ? fd : -code;
}

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t len;
};

static struct address address(const char *text, uint16_t port) {
    struct address a = {0};

    if (strchr(text, ':')) {
        a.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        a.len = sizeof a.v6;
        assert_int_equal(inet_pton(AF_INET6, text, &a.v6.sin6_addr), 1);
    } else {
        a.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        a.len = sizeof a.v4;
        assert_int_equal(inet_pton(AF_INET, text, &a.v4.sin_addr), 1);
    }
    return a;
}

static bool same(const struct address *a, const struct address *b) {
    return a->len == b->len && memcmp(&a->v6, &b->v6, a->len) == 0;
}

/* 0 or -errno; *ret_fd is the inside's end. */
static int go(const struct scene *s, const char *to, uint16_t port, int *ret_fd) {
    struct address a = address(to, port);
    CLEANUP(closep) int fd = wish(s, a.any.sa_family, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    if (connect(fd, &a.any, a.len) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Connects inside, accepts outside: the accepted socket says where it was to go, and carries bytes both ways. */
static void assert_captured(const struct scene *s, int place, const char *to, uint16_t port, const char *seen_as) {
    struct address want = address(seen_as, port), seen = {.len = sizeof seen.v6};
    CLEANUP(closep) int in = -1;
    CLEANUP(closep) int out = -1;
    char byte = 0;

    assert_int_equal(go(s, to, port, &in), 0);
    out = accept4(s->n.fds[place], NULL, NULL, SOCK_CLOEXEC);
    assert_true(out >= 0);
    assert_int_equal(getsockname(out, &seen.any, &seen.len), 0);
    if (!same(&want, &seen))
        fail_msg("%s port %u arrived as something else", to, port);
    assert_int_equal(write(in, "a", 1), 1);
    assert_int_equal(read(out, &byte, 1), 1);
    assert_int_equal(byte, 'a');
    assert_int_equal(write(out, "b", 1), 1);
    assert_int_equal(read(in, &byte, 1), 1);
    assert_int_equal(byte, 'b');
}

static void assert_nobody_came(const struct scene *s) {
    for (size_t i = 0; i < NETWORK_FDS_MAX; i++) {
        struct pollfd p = {.fd = s->n.fds[i], .events = POLLIN};

        assert_int_equal(poll(&p, 1, 0), 0);
    }
}

static void capture_everything(bool as_user) {
    struct scene s = begin(NETWORK_EVERYTHING, as_user);

    assert_int_equal(s.n.has, NETWORK_EVERYTHING);
    for (int i = 0; i < NETWORK_FDS_MAX; i++)
        assert_int_equal(s.n.fds[i] >= 0, i < NETWORK_NAMED);
    assert_captured(&s, NETWORK_TCP4, "203.0.113.5", 4711, "203.0.113.5");
    assert_captured(&s, NETWORK_TCP4, "10.0.0.1", 1, "10.0.0.1");
    assert_captured(&s, NETWORK_TCP4, "169.254.169.254", 80, "169.254.169.254");
    assert_captured(&s, NETWORK_TCP4, "198.18.0.1", 53, "198.18.0.1");
    assert_captured(&s, NETWORK_TCP4, "8.8.8.8", NETWORK_PORT, "8.8.8.8");
    assert_captured(&s, NETWORK_TCP4, "127.0.0.1", NETWORK_PORT, "127.0.0.1"); /* for clients that want a proxy */
    assert_captured(&s, NETWORK_TCP6, "2001:db8::5", 443, "2001:db8::5");
    assert_captured(&s, NETWORK_TCP6, "fd00:ec2::254", 80, "fd00:ec2::254");
    assert_captured(&s, NETWORK_TCP6, "64:ff9b::a00:1", 65535, "64:ff9b::a00:1");
    assert_captured(&s, NETWORK_TCP6, "::1", NETWORK_PORT, "::1");
    assert_nobody_came(&s);
    end(&s);
}

static void every_port_by_root(void **state UNUSED) {
    capture_everything(false);
}

static void every_port_by_a_user(void **state UNUSED) {
    capture_everything(true);
}

static void a_mapped_address_is_ipv4(void **state UNUSED) {
    struct scene s = begin(NETWORK_EVERYTHING, true);

    assert_captured(&s, NETWORK_TCP4, "::ffff:192.0.2.7", 8000, "192.0.2.7");
    end(&s);
}

static void without_ipv6(void **state UNUSED) {
    struct scene s = begin(NETWORK_EVERY_PORT, true);
    int fd = -1;

    assert_int_equal(s.n.has, NETWORK_EVERY_PORT);
    assert_int_equal(s.n.fds[NETWORK_TCP6], -1);
    assert_int_equal(s.n.fds[NETWORK_UDP6], -1);
    assert_captured(&s, NETWORK_TCP4, "203.0.113.5", 4711, "203.0.113.5");
    assert_int_equal(go(&s, "2001:db8::5", 443, &fd), -ENETUNREACH);
    end(&s);
}

static void named_ports(void **state UNUSED) {
    struct scene s = begin(NETWORK_IPV6, true);
    int fd = -1;

    assert_int_equal(s.n.has, NETWORK_IPV6);
    for (size_t i = 0; i < n_network_named_ports; i++) {
        assert_captured(&s, NETWORK_NAMED + (int)i, "203.0.113.5", network_named_ports[i], "::ffff:203.0.113.5");
        assert_captured(&s, NETWORK_NAMED + (int)i, "2001:db8::5", network_named_ports[i], "2001:db8::5");
    }
    assert_captured(&s, NETWORK_TCP4, "127.0.0.1", NETWORK_PORT, "127.0.0.1");
    assert_int_equal(go(&s, "203.0.113.5", 4711, &fd), -ECONNREFUSED);
    assert_int_equal(go(&s, "2001:db8::5", 4711, &fd), -ECONNREFUSED);
    end(&s);
}

static void named_ports_without_ipv6(void **state UNUSED) {
    struct scene s = begin(0, true);

    assert_int_equal(s.n.has, 0);
    assert_captured(&s, NETWORK_NAMED + 3, "203.0.113.5", 443, "203.0.113.5");
    end(&s);
}

static int listen_inside(const struct scene *s, const char *on, uint16_t port) {
    struct address a = address(on, port);
    CLEANUP(closep) int fd = wish(s, a.any.sa_family, SOCK_STREAM, 0);
    int one = 1;

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one), 0);
    if (bind(fd, &a.any, a.len) < 0 || listen(fd, 1) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static void own_servers_are_left_alone(void **state UNUSED) {
    static const char *const places[] = {"127.0.0.1", "127.0.0.9", "::1"};
    struct scene s = begin(NETWORK_EVERYTHING, true);

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        CLEANUP(closep) int server = listen_inside(&s, places[i], 8080);
        CLEANUP(closep) int client = -1;
        CLEANUP(closep) int accepted = -1;

        assert_true(server >= 0);
        assert_int_equal(go(&s, places[i], 8080, &client), 0);
        accepted = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        assert_true(accepted >= 0);
        closep(&client);
        assert_int_equal(go(&s, places[i], 8081, &client), -ECONNREFUSED);
    }
    assert_nobody_came(&s);
    end(&s);
}

/* A server of the inside on an address of the outside gets nothing that was meant for the outside. */
static void no_server_takes_what_is_ours(void **state UNUSED) {
    static const struct {
        const char *on;
        uint16_t port;
    } taken[] = {{"0.0.0.0", NETWORK_PORT}, {"127.0.0.1", NETWORK_PORT}, {"203.0.113.5", NETWORK_PORT},
                 {"::", NETWORK_PORT},      {"::1", NETWORK_PORT},       {"::ffff:127.0.0.1", NETWORK_PORT}};
    struct scene s = begin(NETWORK_EVERYTHING, true);
    CLEANUP(closep) int server = -1;

    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        assert_int_equal(listen_inside(&s, taken[i].on, taken[i].port), -EADDRINUSE);
    assert_int_equal(listen_inside(&s, "2001:db8::5", NETWORK_PORT), -EADDRNOTAVAIL);
    server = listen_inside(&s, "203.0.113.5", 4711);
    assert_true(server >= 0);
    assert_captured(&s, NETWORK_TCP4, "203.0.113.5", 4711, "203.0.113.5");
    end(&s);
}

static int bind_udp(const struct scene *s, const char *on, uint16_t port) {
    struct address a = address(on, port);
    CLEANUP(closep) int fd = wish(s, a.any.sa_family, SOCK_DGRAM, 0);
    int one = 1;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one), 0);
    return bind(fd, &a.any, a.len) < 0 ? -errno : 0;
}

/* The question's own address comes with it, and an answer from there is taken by a connected client. */
static void ask_udp(const struct scene *s, int place, const char *server) {
    struct address to = address(server, NETWORK_DNS_PORT), from = {.len = sizeof from.v6};
    CLEANUP(closep) int client = wish(s, to.any.sa_family, SOCK_DGRAM, 0);
    char text[16], space[256];
    struct iovec iov = {.iov_base = text, .iov_len = sizeof text};
    struct msghdr msg = {.msg_name = &from.v6,
                         .msg_namelen = sizeof from.v6,
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = space,
                         .msg_controllen = sizeof space};

    assert_int_equal(connect(client, &to.any, to.len), 0);
    assert_int_equal(send(client, "who?", 4, 0), 4);
    assert_int_equal(recvmsg(s->n.fds[place], &msg, MSG_CMSG_CLOEXEC), 4);
    assert_non_null(CMSG_FIRSTHDR(&msg));
    assert_int_equal(CMSG_FIRSTHDR(&msg)->cmsg_type, place == NETWORK_UDP4 ? IP_PKTINFO : IPV6_PKTINFO);
    iov.iov_len = 4;
    assert_int_equal(sendmsg(s->n.fds[place], &msg, 0), 4); /* the same control message back: from the asked address */
    assert_int_equal(recv(client, text, sizeof text, 0), 4);
}

static void only_dns_by_udp(void **state UNUSED) {
    static const struct {
        const char *to;
        uint16_t port;
    } refused[] = {{"203.0.113.5", 443}, {"203.0.113.5", 123}, {"8.8.8.8", 853}, {"2001:db8::5", 443}, {"10.0.0.1", 5353}};
    struct scene s = begin(NETWORK_EVERYTHING, true);

    ask_udp(&s, NETWORK_UDP4, "198.18.0.1");
    ask_udp(&s, NETWORK_UDP4, "8.8.8.8");
    ask_udp(&s, NETWORK_UDP6, "2001:4860:4860::8888");
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct address a = address(refused[i].to, refused[i].port);
        CLEANUP(closep) int fd = wish(&s, a.any.sa_family, SOCK_DGRAM, 0);

        assert_int_equal(connect(fd, &a.any, a.len), 0);
        assert_int_equal(send(fd, "x", 1, 0), 1);
        assert_int_equal(send(fd, "x", 1, 0), -1);
        assert_int_equal(errno, ECONNREFUSED);
    }
    assert_int_equal(bind_udp(&s, "0.0.0.0", NETWORK_DNS_PORT), -EADDRINUSE);
    assert_int_equal(bind_udp(&s, "127.0.0.1", NETWORK_DNS_PORT), -EADDRINUSE);
    assert_int_equal(bind_udp(&s, "198.18.0.1", NETWORK_DNS_PORT), -EADDRINUSE);
    assert_int_equal(bind_udp(&s, "::", NETWORK_DNS_PORT), -EADDRINUSE);
    assert_nobody_came(&s);
    end(&s);
}

static void no_ping(void **state UNUSED) {
    struct scene s = begin(NETWORK_EVERYTHING, true);

    assert_int_equal(wish(&s, AF_INET, SOCK_DGRAM, IPPROTO_ICMP), -EACCES);
    assert_int_equal(wish(&s, AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6), -EACCES);
    end(&s);
}

static void many_wait_for_the_gate(void **state UNUSED) {
    enum { MANY = 600 };
    struct scene s = begin(NETWORK_EVERYTHING, true);
    int fds[MANY];

    for (int i = 0; i < MANY; i++)
        assert_int_equal(go(&s, "203.0.113.5", (uint16_t)(1000 + i), &fds[i]), 0);
    for (int i = 0; i < MANY; i++) {
        int fd = accept4(s.n.fds[NETWORK_TCP4], NULL, NULL, SOCK_CLOEXEC);

        assert_true(fd >= 0);
        close(fd);
        close(fds[i]);
    }
    end(&s);
}

static void listeners_do_not_block(void **state UNUSED) {
    struct scene s = begin(NETWORK_EVERYTHING, true);

    for (int i = 0; i < NETWORK_NAMED; i++) {
        assert_true(fcntl(s.n.fds[i], F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(s.n.fds[i], F_GETFD) & FD_CLOEXEC);
    }
    end(&s);
}

/* What does not look like a child of ours is refused, and no descriptor stays. */
static void strange_messages(void **state UNUSED) {
    static const struct {
        struct init_msg msg;
        size_t n_fds;
    } bad[] = {
        {{.type = INIT_MSG_EXITED, .value = 1}, 1},
        {{.type = INIT_MSG_NETWORK, .value = 1}, 0},
        {{.type = INIT_MSG_NETWORK, .value = 1}, 2},
        {{.type = INIT_MSG_NETWORK, .value = 7}, 2},
        {{.type = INIT_MSG_NETWORK, .value = 1, .extra = 1}, 1}, /* and nothing follows */
    };
    int first = open("/dev/null", O_RDONLY | O_CLOEXEC), last;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const int fds[2] = {STDIN_FILENO, STDOUT_FILENO};
        struct listeners n = LISTENERS_INIT;
        struct err err = {0};
        int pair[2];

        assert_int_equal(sock_pair(pair), 0);
        assert_int_equal(sock_send(pair[1], &bad[i].msg, sizeof bad[i].msg, fds, bad[i].n_fds), 0);
        close(pair[1]);
        assert_true(network_receive(pair[0], &n, &err) < 0);
        assert_int_equal(n.fds[0], -1);
        close(pair[0]);
    }
    last = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(last, first + 1);
    close(first);
    close(last);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_port_by_root),
        cmocka_unit_test(every_port_by_a_user),
        cmocka_unit_test(a_mapped_address_is_ipv4),
        cmocka_unit_test(without_ipv6),
        cmocka_unit_test(named_ports),
        cmocka_unit_test(named_ports_without_ipv6),
        cmocka_unit_test(own_servers_are_left_alone),
        cmocka_unit_test(no_server_takes_what_is_ours),
        cmocka_unit_test(only_dns_by_udp),
        cmocka_unit_test(no_ping),
        cmocka_unit_test(many_wait_for_the_gate),
        cmocka_unit_test(listeners_do_not_block),
        cmocka_unit_test(strange_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
