/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "init/published_connect.c" /* bawn-init's sources are no part of the library */
#include "jail/network/network.h"

/* Without a network of its own, which is not tested here. */
int guard_inside(struct guard *g UNUSED, int port UNUSED, int *ret_fd UNUSED) {
    return -ENOSYS;
}

static_assert((int)OWN_PORT == (int)NETWORK_PORT, "one port");

enum { FREE_PORT = 4001, PORT4 = 4002, PORT6 = 4003 };

/* Ports of a network of our own, so that nothing else is on them. */
static int enter(void **state UNUSED) {
    if (unshare(getuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) < 0)
        return -1;
    return network_loopback(NULL);
}

static int serve_on(int family, uint16_t port) {
    const struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(family == AF_INET ? bind(fd, (const struct sockaddr *)&a4, sizeof a4)
                                       : bind(fd, (const struct sockaddr *)&a6, sizeof a6),
                     0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

/* What is in the answer; a descriptor only without an error. */
static int ask(int port, int *ret_fd) {
    const struct init_msg question = {.type = INIT_MSG_INSIDE, .value = port, .extra = 77};
    struct init_msg answer;
    struct init in = {0};
    size_t n = 1;
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    in.control = pair[0];
    inside_answer(&in, &question);
    assert_int_equal(sock_recv(pair[1], &answer, sizeof answer, ret_fd, &n), (long)sizeof answer);
    assert_int_equal(answer.type, INIT_MSG_INSIDE);
    assert_int_equal(answer.extra, 77);
    assert_int_equal(n, answer.value == 0);
    close(pair[0]);
    close(pair[1]);
    return answer.value;
}

static void assert_reached(int family, uint16_t port) {
    CLEANUP(closep) int server = serve_on(family, port);
    CLEANUP(closep) int client = -1;
    CLEANUP(closep) int accepted = -1;
    char byte = 0;

    assert_int_equal(ask(port, &client), 0);
    assert_true(fcntl(client, F_GETFL) & O_NONBLOCK);
    accepted = accept4(server, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    assert_int_equal(write(accepted, "x", 1), 1);
    assert_int_equal(poll(&(struct pollfd){.fd = client, .events = POLLIN}, 1, -1), 1);
    assert_int_equal(read(client, &byte, 1), 1);
    assert_int_equal(byte, 'x');
}

static void servers_are_reached(void **state UNUSED) {
    assert_reached(AF_INET, PORT4);
    assert_reached(AF_INET6, PORT6);
}

static void nobody_listens(void **state UNUSED) {
    int fd = -1;

    assert_int_equal(ask(FREE_PORT, &fd), ECONNREFUSED);
    assert_int_equal(fd, -1);
}

static void ports_that_are_none(void **state UNUSED) {
    static const int ports[] = {0, -1, 65536, INT32_MAX, INT32_MIN, NETWORK_PORT};
    int fd = -1;

    for (size_t i = 0; i < ARRAY_LEN(ports); i++)
        assert_int_equal(ask(ports[i], &fd), EINVAL);
    assert_int_equal(fd, -1);
}

/* Would block for ever otherwise: nobody reads. */
static void a_full_socket_does_not_stop_us(void **state UNUSED) {
    const struct init_msg question = {.type = INIT_MSG_INSIDE, .value = FREE_PORT};
    struct init in = {0};
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    in.control = pair[0];
    for (int i = 0; i < 5000; i++)
        inside_answer(&in, &question);
    assert_int_equal(poll(&(struct pollfd){.fd = pair[0], .events = POLLOUT}, 1, 0), 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_are_reached),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(ports_that_are_none),
        cmocka_unit_test(a_full_socket_does_not_stop_us),
    };

    return cmocka_run_group_tests(tests, enter, NULL);
}
