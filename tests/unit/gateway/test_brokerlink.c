/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/epoll_set.h"
#include "gateway/gate.h"
#include "gateway/secret/brokerlink.h"
#include "os/fd.h"
#include "os/sock.h"

enum { TURNS = 60000 }; /* of the loop: only so that a hang ends as a failure */

struct scene {
    struct gate gate; /* first: gate_send() finds the scene by it */
    int broker;
    unsigned wanted;
    uint8_t got[BROKER_MESSAGE_MAX]; /* requests that came in one message and were not taken yet */
    size_t got_at, got_len;
};

struct hope {
    unsigned calls;
    int status;
    char data[16];
    struct broker_call *cancel; /* in fn */
};

void gate_send(struct gate *g, const struct gate_msg *m) {
    struct scene *s = (struct scene *)g;

    assert_int_equal(m->type, GATE_MSG_WANT_BROKER);
    s->wanted++;
}

static void turn(struct scene *s) {
    hub_turn(s->gate.hub, HUB_LOOK);
}

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);

    assert_int_equal(uv_loop_init(&s->gate.loop), 0);
    assert_int_equal(hub_new(&s->gate.loop, &s->gate.hub, NULL), 0);
    assert_int_equal(brokerlink_new(&s->gate, &s->gate.broker), 0);
    s->broker = -1;
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    brokerlink_free(s->gate.broker);
    for (int i = 0; i < 10; i++)
        turn(s);
    hub_free(s->gate.hub);
    uv_run(&s->gate.loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&s->gate.loop), 0); /* a handle that somebody forgot keeps it open */
    closep(&s->broker);
    free(s);
    return 0;
}

static void connect_broker(struct scene *s) {
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    closep(&s->broker);
    s->broker = pair[1];
    s->got_at = s->got_len = 0;
    brokerlink_socket(s->gate.broker, pair[0]);
}

static void on_answer(void *arg, int status, const uint8_t *data, size_t len) {
    struct hope *h = arg;

    h->calls++;
    h->status = status;
    assert_in_range(len, 0, sizeof h->data - 1);
    if (len)
        memcpy(h->data, data, len);
    if (h->cancel)
        broker_call_cancel(h->cancel);
    h->cancel = NULL;
}

static struct broker_call *ask(struct scene *s, struct hope *h, const char *data) {
    struct broker_request req = {.type = BROKER_VALUE, .host = "a.test"};

    return broker_call(s->gate.broker, &req, data, strlen(data), on_answer, h);
}

/* The id of the next request, whose data has to be this. */
static uint32_t take(struct scene *s, const char *data) {
    struct broker_request req;
    struct pollfd p = {.fd = s->broker, .events = POLLIN};

    if (s->got_at == s->got_len) {
        long n;

        for (int i = 0; i < TURNS && poll(&p, 1, 0) == 0; i++)
            turn(s);
        n = sock_recv(s->broker, s->got, sizeof s->got, NULL, NULL);
        assert_true(n > 0);
        s->got_at = 0;
        s->got_len = (size_t)n;
    }
    assert_true(s->got_len - s->got_at >= sizeof req + strlen(data));
    memcpy(&req, s->got + s->got_at, sizeof req);
    assert_int_equal(req.len, strlen(data));
    assert_memory_equal(s->got + s->got_at + sizeof req, data, req.len);
    s->got_at += sizeof req + req.len;
    return req.id;
}

static void reply(struct scene *s, uint32_t id, int status, const char *data) {
    uint8_t bytes[64];
    struct broker_answer a = {.id = id, .status = status, .len = (uint32_t)strlen(data)};

    memcpy(bytes, &a, sizeof a);
    memcpy(bytes + sizeof a, data, a.len);
    assert_int_equal(sock_send(s->broker, bytes, sizeof a + a.len, NULL, 0), 0);
}

static void await(struct scene *s, const struct hope *h, unsigned calls) {
    for (int i = 0; i < TURNS && h->calls < calls; i++)
        turn(s);
    assert_int_equal(h->calls, calls);
}

static void test_answers_in_any_order(void **state) {
    struct scene *s = *state;
    struct hope a = {0}, b = {0};
    uint32_t first, second;

    assert_non_null(ask(s, &a, "one"));
    assert_non_null(ask(s, &b, "two"));
    assert_int_equal(s->wanted, 1);
    connect_broker(s);
    first = take(s, "one");
    second = take(s, "two");
    reply(s, second, 0, "2");
    await(s, &b, 1);
    assert_int_equal(a.calls, 0);
    reply(s, first, -EACCES, "");
    await(s, &a, 1);
    assert_int_equal(a.status, -EACCES);
    assert_string_equal(b.data, "2");
}

static void test_cancelled(void **state) {
    struct scene *s = *state;
    struct hope a = {0}, b = {0};
    struct broker_call *call;
    uint32_t first;

    connect_broker(s);
    call = ask(s, &a, "one");
    first = take(s, "one");
    broker_call_cancel(call);
    assert_non_null(ask(s, &b, "two"));
    reply(s, first, 0, "late"); /* nobody waits for it, and the socket stays */
    reply(s, take(s, "two"), 0, "2");
    await(s, &b, 1);
    assert_int_equal(b.status, 0);
    assert_int_equal(a.calls, 0);
}

static void test_lost(void **state) {
    struct scene *s = *state;
    struct hope a = {0}, b = {0};

    connect_broker(s);
    assert_non_null(ask(s, &a, "one"));
    assert_non_null(ask(s, &b, "two"));
    take(s, "one");
    closep(&s->broker);
    await(s, &a, 1);
    await(s, &b, 1);
    assert_int_equal(a.status, -ECONNRESET);
    assert_int_equal(b.status, -ECONNRESET);
    assert_non_null(ask(s, &a, "again"));
    assert_int_equal(s->wanted, 1);
    brokerlink_socket(s->gate.broker, -1);
    await(s, &a, 2);
    assert_int_equal(a.status, -ENOTCONN);
    assert_non_null(ask(s, &a, "once more"));
    assert_int_equal(s->wanted, 2);
    connect_broker(s);
    reply(s, take(s, "once more"), 0, "x");
    await(s, &a, 3);
    assert_int_equal(a.status, 0);
}

static void test_cancel_from_within(void **state) {
    struct scene *s = *state;
    struct hope a = {0}, b = {0};

    connect_broker(s);
    assert_non_null(ask(s, &a, "one"));
    a.cancel = ask(s, &b, "two");
    take(s, "one");
    closep(&s->broker);
    await(s, &a, 1);
    for (int i = 0; i < 10; i++)
        turn(s);
    assert_int_equal(b.calls, 0);
}

static void test_answers_in_one_message(void **state) {
    struct scene *s = *state;
    struct hope h[3] = {{0}};
    uint8_t bytes[3 * (sizeof(struct broker_answer) + 1)], *p = bytes;

    connect_broker(s);
    for (int i = 0; i < 3; i++)
        assert_non_null(ask(s, &h[i], "q"));
    for (int i = 0; i < 3; i++) {
        struct broker_answer a = {.id = take(s, "q"), .len = 1};

        memcpy(p, &a, sizeof a);
        p[sizeof a] = (uint8_t)('0' + i);
        p += sizeof a + 1;
    }
    assert_int_equal(s->got_len, 3 * (sizeof(struct broker_request) + 1)); /* asked in one turn, so in one message */
    assert_int_equal(sock_send(s->broker, bytes, sizeof bytes, NULL, 0), 0);
    await(s, &h[2], 1);
    assert_string_equal(h[0].data, "0");
    assert_string_equal(h[1].data, "1");
    assert_string_equal(h[2].data, "2");
}

static void test_an_answer_that_is_cut(void **state) {
    struct scene *s = *state;
    struct hope h = {0};
    struct broker_answer a = {.len = 5};

    connect_broker(s);
    assert_non_null(ask(s, &h, "q"));
    a.id = take(s, "q");
    assert_int_equal(sock_send(s->broker, &a, sizeof a, NULL, 0), 0);
    await(s, &h, 1);
    assert_int_equal(h.status, -ECONNRESET);
}

static void test_a_full_socket_waits(void **state) {
    struct scene *s = *state;
    struct hope h = {0};
    char data[2001];
    unsigned n = 2000;

    memset(data, 'x', sizeof data - 1);
    data[sizeof data - 1] = 0;
    connect_broker(s);
    for (unsigned i = 0; i < n; i++)
        assert_non_null(ask(s, &h, data));
    for (unsigned i = 0; i < n; i++) {
        reply(s, take(s, data), 0, "");
        turn(s);
    }
    await(s, &h, n);
}

static void test_limits(void **state) {
    struct scene *s = *state;
    struct hope h = {0};
    struct broker_request req = {.type = BROKER_VALUE};
    char *data = calloc(1, BROKER_DATA_MAX + 1);

    assert_null(broker_call(s->gate.broker, &req, data, BROKER_DATA_MAX + 1, on_answer, &h));
    free(data);
    for (size_t i = 0; i < BROKERLINK_CALLS_MAX; i++)
        assert_non_null(ask(s, &h, ""));
    assert_null(ask(s, &h, ""));
    brokerlink_socket(s->gate.broker, -1);
    await(s, &h, BROKERLINK_CALLS_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answers_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel_from_within, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_in_one_message, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_answer_that_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_socket_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("gateway/brokerlink", tests, NULL, NULL);
}
