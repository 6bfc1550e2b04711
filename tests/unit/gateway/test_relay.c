/* SPDX-License-Identifier: Apache-2.0 */
/* Two pairs of sockets with a relay between them: program <-> client side, server side <-> other program. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/epoll_set.h"
#include "gateway/flow/relay.h"
#include "gateway/gate.h"
#include "os/fd.h"

struct scene {
    struct gate gate;
    struct relay *relay;
    int client, server; /* the ends of the programs */
    int relay_client, relay_server;
    int ended; /* enum relay_end, -1: not yet */
    uint64_t sent, received;
    int answer; /* of check() */
    unsigned checks;
};

static void tcp_pair(int *ret_a, int *ret_b) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    CLEANUP(closep) int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(l, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&name, &len), 0);
    *ret_a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*ret_a, (struct sockaddr *)&name, sizeof name), 0);
    *ret_b = accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(*ret_b >= 0);
    fcntl(*ret_a, F_SETFL, O_NONBLOCK);
}

static void ended(void *arg, enum relay_end how, uint64_t sent, uint64_t received) {
    struct scene *s = arg;

    s->ended = how;
    s->sent = sent;
    s->received = received;
    relay_free(TAKE_PTR(s->relay));
}

static int check_first(void *arg) {
    struct scene *s = arg;

    s->checks++;
    return s->answer;
}

static void relay_start(struct scene *s, bool check) {
    struct relay_opts opts = {
        .client = s->relay_client, .server = s->relay_server, .arg = s, .check = check ? check_first : NULL, .end = ended};

    assert_int_equal(relay_new(&s->gate, &opts, &s->relay), 0);
}

static int begin(void **state) {
    struct scene *s = calloc(1, sizeof *s);

    signal(SIGPIPE, SIG_IGN);
    s->ended = -1;
    assert_int_equal(uv_loop_init(&s->gate.loop), 0);
    assert_int_equal(hub_new(&s->gate.loop, &s->gate.hub, NULL), 0);
    assert_int_equal(pipes_new(&s->gate.pipes, NULL), 0);
    tcp_pair(&s->client, &s->relay_client);
    tcp_pair(&s->server, &s->relay_server);
    *state = s;
    return 0;
}

static int end(void **state) {
    struct scene *s = *state;

    relay_free(s->relay);
    closep(&s->client);
    closep(&s->server);
    closep(&s->relay_client);
    closep(&s->relay_server);
    hub_free(s->gate.hub);
    uv_run(&s->gate.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->gate.loop), 0);
    pipes_free(s->gate.pipes);
    free(s);
    return 0;
}

static void turn(struct scene *s) {
    hub_turn(s->gate.hub, HUB_LOOK);
}

/* Turns the loop until this many bytes have come, or the end. */
static size_t take(struct scene *s, int fd, char *buf, size_t len) {
    size_t got = 0;

    while (got < len) {
        ssize_t n = recv(fd, buf + got, len - got, 0);

        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        got += n > 0 ? (size_t)n : 0;
        turn(s);
    }
    return got;
}

static void small_and_half_close(void **state) {
    struct scene *s = *state;
    char buf[16];

    relay_start(s, false);
    assert_int_equal(send(s->client, "ping", 4, 0), 4);
    assert_int_equal(take(s, s->server, buf, 4), 4);
    assert_memory_equal(buf, "ping", 4);
    shutdown(s->client, SHUT_WR);
    assert_int_equal(take(s, s->server, buf, 1), 0);
    assert_int_equal(s->ended, -1); /* the other way is open */
    assert_int_equal(send(s->server, "pong!", 5, 0), 5);
    assert_int_equal(take(s, s->client, buf, 5), 5);
    shutdown(s->server, SHUT_WR);
    while (s->ended < 0)
        turn(s);
    assert_int_equal(s->ended, RELAY_DONE);
    assert_int_equal(s->sent, 4);
    assert_int_equal(s->received, 5);
}

/* Both ways at once, more than all buffers hold, with readers that come late: copied, kept and spliced bytes stay in order. */
static void bulk_in_order(void **state) {
    enum { SIZE = 8 * 1024 * 1024 };
    struct scene *s = *state;
    uint32_t *out = malloc(SIZE), *in[2] = {malloc(SIZE), malloc(SIZE)};
    int fds[2] = {s->client, s->server};
    size_t sent[2] = {0}, got[2] = {0};

    for (uint32_t i = 0; i < SIZE / 4; i++)
        out[i] = i * 2654435761u;
    relay_start(s, false);
    for (int round = 0; got[0] < SIZE || got[1] < SIZE; round++) {
        for (int i = 0; i < 2; i++) {
            ssize_t n = sent[i] < SIZE ? send(fds[i], (char *)out + sent[i], SIZE - sent[i], MSG_NOSIGNAL) : -1;

            sent[i] += n > 0 ? (size_t)n : 0;
            n = round % 7 == 0 ? recv(fds[i], (char *)in[i] + got[i], SIZE - got[i], 0) : -1;
            got[i] += n > 0 ? (size_t)n : 0;
        }
        turn(s);
    }
    assert_memory_equal(in[0], out, SIZE);
    assert_memory_equal(in[1], out, SIZE);
    free(out);
    free(in[0]);
    free(in[1]);
}

static void reset_ends_it(void **state) {
    struct scene *s = *state;
    struct linger now = {.l_onoff = 1};

    relay_start(s, false);
    setsockopt(s->server, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    closep(&s->server);
    while (s->ended < 0)
        turn(s);
    assert_int_equal(s->ended, RELAY_RESET);
}

/* A client that has half-closed and is reset while the server says nothing. */
static void reset_after_half_close(void **state) {
    struct scene *s = *state;
    struct linger now = {.l_onoff = 1};
    char byte;

    relay_start(s, false);
    shutdown(s->client, SHUT_WR);
    assert_int_equal(take(s, s->server, &byte, 1), 0);
    setsockopt(s->client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    closep(&s->client);
    while (s->ended < 0)
        turn(s);
    assert_int_equal(s->ended, RELAY_RESET);
}

static void first_bytes_wait_for_the_check(void **state) {
    struct scene *s = *state;
    int low = 3;
    char buf[8];

    s->answer = -EAGAIN;
    relay_start(s, true);
    setsockopt(s->relay_client, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    assert_int_equal(send(s->server, "hi", 2, 0), 2);
    assert_int_equal(take(s, s->client, buf, 2), 2); /* this way is open */
    assert_int_equal(send(s->client, "abc", 3, 0), 3);
    while (!s->checks)
        turn(s);
    assert_int_equal(recv(s->server, buf, sizeof buf, 0), -1);
    s->answer = 0;
    assert_int_equal(take(s, s->server, buf, 3), 3);
    s->answer = -EACCES; /* is not asked again */
    assert_int_equal(send(s->client, "def", 3, 0), 3);
    assert_int_equal(take(s, s->server, buf, 3), 3);
}

static void refused(void **state) {
    struct scene *s = *state;
    char byte;

    s->answer = -EACCES;
    relay_start(s, true);
    assert_int_equal(send(s->client, "abc", 3, 0), 3);
    while (s->ended < 0)
        turn(s);
    assert_int_equal(s->ended, RELAY_REFUSED);
    assert_int_equal(recv(s->server, &byte, 1, 0), -1);
    assert_int_equal(recv(s->relay_client, &byte, 1, 0), 1); /* nothing was taken */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(small_and_half_close, begin, end),
        cmocka_unit_test_setup_teardown(bulk_in_order, begin, end),
        cmocka_unit_test_setup_teardown(reset_ends_it, begin, end),
        cmocka_unit_test_setup_teardown(reset_after_half_close, begin, end),
        cmocka_unit_test_setup_teardown(first_bytes_wait_for_the_check, begin, end),
        cmocka_unit_test_setup_teardown(refused, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
