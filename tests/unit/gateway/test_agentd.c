/* SPDX-License-Identifier: Apache-2.0 */
/* The ssh-agent inside: a gate with a loop, a broker that this test plays, and clients. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/epoll_set.h"
#include "gateway/flow/agentd.h"
#include "gateway/gate.h"
#include "gateway/net/inlet.h"
#include "gateway/secret/brokerlink.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/ssh_agent.h"

#define MSG(text) "\0\0\0" text
enum { SIZE = 64 * 1024 };

struct scene {
    struct gate gate;
    struct sockaddr_un at;
    socklen_t at_len;
    int broker;
    struct {
        struct broker_request req;
        uint8_t data[SIZE];
    } last;
    unsigned asked;
};

/* Abstract, so that no file is left behind; the kernel chooses the name. */
static int listen_somewhere(struct scene *s) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    s->at.sun_family = AF_UNIX;
    s->at_len = sizeof s->at;
    assert_int_equal(bind(fd, (struct sockaddr *)&s->at, sizeof s->at.sun_family), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&s->at, &s->at_len), 0);
    assert_int_equal(listen(fd, 256), 0);
    return fd;
}

static struct scene *scene_new(void) {
    struct scene *s = calloc(1, sizeof *s);
    int pair[2];

    assert_int_equal(uv_loop_init(&s->gate.loop), 0);
    assert_int_equal(hub_new(&s->gate.loop, &s->gate.hub, NULL), 0);
    assert_int_equal(brokerlink_new(&s->gate, &s->gate.broker), 0);
    assert_int_equal(agentd_new(&s->gate, listen_somewhere(s), &s->gate.ssh, NULL), 0);
    assert_int_equal(sock_pair(pair), 0);
    s->broker = pair[0];
    assert_int_equal(fcntl(s->broker, F_SETFL, O_NONBLOCK), 0);
    brokerlink_socket(s->gate.broker, pair[1]);
    return s;
}

static void scene_free(struct scene *s) {
    inlet_free(s->gate.ssh);
    brokerlink_free(s->gate.broker);
    hub_free(s->gate.hub);
    uv_run(&s->gate.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->gate.loop), 0);
    closep(&s->broker);
    free(s);
}

static int scene_connect(struct scene *s) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&s->at, s->at_len), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* A few rounds are enough for whatever can happen without the broker. */
static void turn(struct scene *s) {
    for (int i = 0; i < 20; i++)
        hub_turn(s->gate.hub, HUB_LOOK);
}

static bool broker_asked(struct scene *s) {
    long n;

    turn(s);
    n = recv(s->broker, &s->last, sizeof s->last, MSG_DONTWAIT);
    assert_true(n < 0 || (n >= (long)sizeof s->last.req && s->last.req.len == (size_t)n - sizeof s->last.req));
    s->asked += n > 0;
    return n > 0;
}

static void broker_says(struct scene *s, int status, const char *data, size_t len) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SIZE);
    struct broker_answer a = {.id = s->last.req.id, .status = status, .len = (uint32_t)len};

    buf_add(&b, &a, sizeof a);
    if (len)
        buf_add(&b, data, len);
    assert_int_equal(sock_send(s->broker, b.data, b.len, NULL, 0), 0);
    turn(s);
}

static void say(int fd, const void *data, size_t len) {
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

static void check_heard(int fd, const char *data, size_t len) {
    uint8_t got[SIZE];

    assert_int_equal(recv(fd, got, sizeof got, MSG_DONTWAIT), len);
    assert_memory_equal(got, data, len);
}
#define SAY(fd, text) say(fd, text, sizeof(text) - 1)
#define HEARD(fd, text) check_heard(fd, text, sizeof(text) - 1)

static void say_bind(int fd, bool forwarding) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(SIZE), framed = BUF_INIT(SIZE);

    buf_addc(&b, SSH_AGENTC_EXTENSION);
    ssh_put_string(&b, "session-bind@openssh.com", 24);
    ssh_put_string(&b, "host", 4);
    ssh_put_string(&b, forwarding ? "away" : "here", 4);
    ssh_put_string(&b, "signature", 9);
    buf_addc(&b, forwarding);
    ssh_put_string(&framed, b.data, b.len);
    say(fd, framed.data, framed.len);
}

#define SIGN MSG("\22") "\15" MSG("\3") "key" MSG("\2") "da" MSG("\0")

static void test_list(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);

    SAY(fd, MSG("\1") "\13");
    assert_true(broker_asked(s));
    assert_int_equal(s->last.req.type, BROKER_SSH_KEYS);
    assert_int_equal(s->last.req.len, 0);
    broker_says(s, 0, "\14\0\0\0\0", 5);
    HEARD(fd, MSG("\5") "\14\0\0\0\0");
    SAY(fd, MSG("\1") "\13");
    assert_true(broker_asked(s));
    broker_says(s, -EACCES, NULL, 0);
    HEARD(fd, MSG("\1") "\5");
    closep(&fd);
    scene_free(s);
}

static void test_refused_at_once(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);

    for (unsigned type = 0; type < 256; type++) {
        uint8_t msg[] = {0, 0, 0, 5, (uint8_t)type, 0, 0, 0, 0};

        say(fd, msg, sizeof msg);
        assert_false(broker_asked(s));
        HEARD(fd, MSG("\1") "\5");
    }
    closep(&fd);
    scene_free(s);
}

static void check_sign_parts(struct scene *s, const char *session) {
    struct broker_part parts[2];
    struct ssh_bind bind;

    assert_int_equal(s->last.req.type, BROKER_SSH_SIGN);
    assert_int_equal(broker_parts_read(s->last.data, s->last.req.len, parts, 2), 0);
    assert_int_equal(parts[1].len, 17);
    assert_memory_equal(parts[1].p, MSG("\3") "key", 7);
    assert_int_equal(parts[0].len > 0, session != NULL);
    if (!session)
        return;
    assert_int_equal(ssh_bind_parse((struct ssh_bytes){(const uint8_t *)parts[0].p, parts[0].len}, &bind), 0);
    assert_true(ssh_is(bind.session, session));
}

static void test_sign_has_this_clients_bind(void **state) {
    struct scene *s = scene_new();
    int bound = scene_connect(s), unbound = scene_connect(s);

    say_bind(bound, false);
    turn(s);
    HEARD(bound, MSG("\1") "\6");
    SAY(unbound, SIGN);
    assert_true(broker_asked(s));
    check_sign_parts(s, NULL);
    broker_says(s, -EACCES, NULL, 0);
    HEARD(unbound, MSG("\1") "\5");
    SAY(bound, SIGN);
    assert_true(broker_asked(s));
    check_sign_parts(s, "here");
    broker_says(s, 0, "\16\0\0\0\1s", 6);
    HEARD(bound, MSG("\6") "\16\0\0\0\1s");
    closep(&bound);
    closep(&unbound);
    scene_free(s);
}

static void test_forwarded_is_dead(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);

    say_bind(fd, true);
    turn(s);
    HEARD(fd, MSG("\1") "\5");
    say_bind(fd, false);
    turn(s);
    HEARD(fd, MSG("\1") "\5");
    SAY(fd, SIGN MSG("\1") "\13");
    assert_false(broker_asked(s));
    HEARD(fd, MSG("\1") "\5" MSG("\1") "\5");
    closep(&fd);
    scene_free(s);
}

static void test_one_at_a_time(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);

    SAY(fd, MSG("\1") "\13" MSG("\1") "\13" MSG("\1") "\23");
    assert_true(broker_asked(s));
    assert_false(broker_asked(s));
    broker_says(s, 0, "\14\0\0\0\0", 5);
    HEARD(fd, MSG("\5") "\14\0\0\0\0");
    assert_true(broker_asked(s));
    broker_says(s, 0, "\14\0\0\0\0", 5);
    turn(s);
    HEARD(fd, MSG("\5") "\14\0\0\0\0" MSG("\1") "\5");
    closep(&fd);
    scene_free(s);
}

static void test_too_long(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);
    char byte;

    SAY(fd, "\0\4\0\1\15");
    turn(s);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), 0);
    closep(&fd);
    scene_free(s);
}

/* As long as the agent's protocol allows, but longer than the broker takes. */
static void test_longer_than_the_broker_takes(void **state) {
    struct scene *s = scene_new();
    CLEANUP(buf_done) struct buf b = BUF_INIT(512 * 1024), framed = BUF_INIT(512 * 1024);
    CLEANUP(freep) char *filler = calloc(1, 200 * 1024);
    int fd = scene_connect(s);
    size_t sent = 0;

    buf_addc(&b, SSH_AGENTC_SIGN_REQUEST);
    ssh_put_string(&b, "key", 3);
    ssh_put_string(&b, filler, 200 * 1024);
    ssh_put_u32(&b, 0);
    ssh_put_string(&framed, b.data, b.len);
    while (sent < framed.len) {
        ssize_t n = send(fd, framed.data + sent, framed.len - sent, MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        turn(s);
    }
    assert_false(broker_asked(s));
    HEARD(fd, MSG("\1") "\5");
    closep(&fd);
    scene_free(s);
}

static void test_client_goes_while_it_waits(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s), other = scene_connect(s);

    SAY(fd, MSG("\1") "\13");
    assert_true(broker_asked(s));
    closep(&fd);
    turn(s);
    broker_says(s, 0, "\14\0\0\0\0", 5);
    SAY(other, MSG("\1") "\13");
    assert_true(broker_asked(s));
    broker_says(s, 0, "\14\0\0\0\0", 5);
    HEARD(other, MSG("\5") "\14\0\0\0\0");
    closep(&other);
    scene_free(s);
}

static void test_broker_goes(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);

    SAY(fd, MSG("\1") "\13");
    assert_true(broker_asked(s));
    closep(&s->broker);
    turn(s);
    HEARD(fd, MSG("\1") "\5");
    closep(&fd);
    scene_free(s);
}

/* More clients than there is room for: those beyond wait in line, and come in when others go. */
static void test_many_clients(void **state) {
    struct scene *s = scene_new();
    int fds[INLET_CLIENTS_MAX + 20];

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = scene_connect(s);
        SAY(fds[i], MSG("\1") "\23");
    }
    for (int i = 0; i < 10; i++)
        turn(s);
    for (size_t i = 0; i < INLET_CLIENTS_MAX; i++)
        HEARD(fds[i], MSG("\1") "\5");
    for (size_t i = INLET_CLIENTS_MAX; i < ARRAY_LEN(fds); i++)
        assert_int_equal(recv(fds[i], &(char){0}, 1, MSG_DONTWAIT), -1);
    for (size_t i = 0; i < 20; i++)
        closep(&fds[i]);
    for (int i = 0; i < 10; i++)
        turn(s);
    for (size_t i = INLET_CLIENTS_MAX; i < ARRAY_LEN(fds); i++)
        HEARD(fds[i], MSG("\1") "\5");
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        closep(&fds[i]);
    turn(s);
    scene_free(s);
}

/* A client that never reads: it is not read from either, so what waits for it stays small. */
static void test_client_that_does_not_read(void **state) {
    struct scene *s = scene_new();
    int fd = scene_connect(s);
    size_t sent = 0, stuck = 0;

    while (stuck < 50) {
        ssize_t n = send(fd, MSG("\1") "\23", 5, MSG_NOSIGNAL);

        sent += n > 0;
        stuck = n > 0 ? 0 : stuck + 1;
        turn(s);
        assert_true(sent < 1000000);
    }
    closep(&fd);
    turn(s);
    scene_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_refused_at_once),
        cmocka_unit_test(test_sign_has_this_clients_bind),
        cmocka_unit_test(test_forwarded_is_dead),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_longer_than_the_broker_takes),
        cmocka_unit_test(test_client_goes_while_it_waits),
        cmocka_unit_test(test_broker_goes),
        cmocka_unit_test(test_many_clients),
        cmocka_unit_test(test_client_that_does_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
