/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "init/out.c" /* bawn-init's sources are no part of the library */

enum { MESSAGES = 3000 };

struct scene {
    struct init in;
    int supervisor;
};

static int begin(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    s->in.control = pair[0];
    s->supervisor = pair[1];
    fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK);
    *state = s;
    return 0;
}

static int end(void **state) {
    struct scene *s = *state;

    closep(&s->in.control);
    closep(&s->supervisor);
    s->in.outbox.broken = true;
    out_flush(&s->in); /* nothing can be sent any more: frees all */
    assert_null(s->in.outbox.first);
    free(s);
    return 0;
}

static void say(struct scene *s, uint32_t type, int job, int value) {
    struct init_msg msg = {.type = type, .job = job, .value = value};

    out_send(&s->in, &msg, -1);
}

static struct init_msg hear(const struct scene *s) {
    struct init_msg msg;
    size_t n = 1;
    int fd = -1;

    assert_int_equal(sock_recv(s->supervisor, &msg, sizeof msg, &fd, &n), (long)sizeof msg);
    assert_int_equal(n, msg.type == INIT_MSG_STARTED);
    closep(&fd);
    return msg;
}

static void test_nothing_is_lost(void **state) {
    struct scene *s = *state;

    for (int i = 0; i < MESSAGES; i++)
        say(s, INIT_MSG_EXITED, i + 1, i);
    assert_true(s->in.outbox.n > 0);
    assert_false(s->in.outbox.broken);
    for (int i = 0; i < MESSAGES; i++) {
        struct init_msg msg = hear(s);

        assert_int_equal(msg.job, i + 1);
        assert_int_equal(msg.value, i);
        out_flush(&s->in);
    }
    assert_int_equal(s->in.outbox.n, 0);
    assert_null(s->in.outbox.last);
}

static void test_descriptors_wait_too(void **state) {
    struct scene *s = *state;
    struct init_msg started = {.type = INIT_MSG_STARTED, .job = 5};
    int fd = dup(s->supervisor), direct = dup(s->supervisor);

    out_send(&s->in, &started, direct);
    assert_int_equal(fcntl(direct, F_GETFD), -1); /* sent, and not ours any more */
    assert_int_equal(hear(s).type, INIT_MSG_STARTED);
    while (s->in.outbox.n == 0)
        say(s, INIT_MSG_EXITED, 1, 0);
    out_send(&s->in, &started, fd);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    while (hear(s).type != INIT_MSG_STARTED)
        out_flush(&s->in);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* Stopping again and again does not fill our memory, and the last one is told. */
static void test_stops_of_one_job_are_one(void **state) {
    struct scene *s = *state;
    struct init_msg msg;
    size_t n;

    while (s->in.outbox.n == 0)
        say(s, INIT_MSG_EXITED, 1, 0);
    n = s->in.outbox.n;
    for (int i = 0; i < MESSAGES; i++) {
        say(s, INIT_MSG_STOPPED, 2, 19);
        say(s, INIT_MSG_STOPPED, 3, 20);
    }
    say(s, INIT_MSG_STOPPED, 2, 21);
    say(s, INIT_MSG_EXITED, 2, 7);
    assert_int_equal(s->in.outbox.n, n + 3);
    do {
        msg = hear(s);
        out_flush(&s->in);
    } while (msg.job == 1);
    assert_int_equal(msg.job, 2);
    assert_int_equal(msg.value, 21);
    assert_int_equal(hear(s).job, 3);
    assert_int_equal(hear(s).type, INIT_MSG_EXITED);
}

static void test_the_end_of_the_supervisor(void **state) {
    struct scene *s = *state;
    int fd = dup(0);
    struct init_msg started = {.type = INIT_MSG_STARTED, .job = 5};

    while (s->in.outbox.n == 0)
        say(s, INIT_MSG_EXITED, 1, 0);
    closep(&s->supervisor);
    out_flush(&s->in);
    assert_true(s->in.outbox.broken);
    assert_int_equal(s->in.outbox.n, 0);
    out_send(&s->in, &started, fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_descriptors_wait_too, begin, end),
        cmocka_unit_test_setup_teardown(test_stops_of_one_job_are_one, begin, end),
        cmocka_unit_test_setup_teardown(test_the_end_of_the_supervisor, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
