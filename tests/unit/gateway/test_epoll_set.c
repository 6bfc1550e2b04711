/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to wait: what is ready is handled, and what is not is slept for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/epoll_set.h"
#include "os/fd.h"

enum { SLEEP_MS = 30, SLEEPS = 20 };

struct scene {
    uv_loop_t loop;
    struct hub *hub;
    int in, out; /* of a pipe */
    struct watch watch;
    struct deadline deadline;
    unsigned bytes, passed;
};

static void on_byte(void *arg, uint32_t events UNUSED) {
    struct scene *s = arg;
    char byte;

    s->bytes += read(s->out, &byte, 1) == 1;
}

static void on_time(void *arg) {
    struct scene *s = arg;

    s->passed++;
}

static int setup(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    int fds[2];

    assert_int_equal(uv_loop_init(&s->loop), 0);
    assert_int_equal(hub_new(&s->loop, &s->hub, NULL), 0);
    assert_int_equal(pipe(fds), 0);
    s->out = fds[0];
    s->in = fds[1];
    assert_int_equal(watch_start(s->hub, &s->watch, s->out, EPOLLIN, on_byte, s), 0);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    watch_stop(s->hub, &s->watch);
    deadline_done(&s->deadline);
    hub_free(s->hub);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    closep(&s->in);
    closep(&s->out);
    free(s);
    return 0;
}

static void test_ready_is_handled(void **state) {
    static const enum hub_wait ways[] = {HUB_LOOK, HUB_SLEEP, HUB_SPIN};
    struct scene *s = *state;

    for (unsigned i = 0; i < ARRAY_LEN(ways); i++) {
        assert_int_equal(write(s->in, "x", 1), 1);
        hub_turn(s->hub, ways[i]);
        assert_int_equal(s->bytes, i + 1);
    }
}

static void test_look_does_not_wait(void **state) {
    struct scene *s = *state;

    hub_turn(s->hub, HUB_LOOK);
    assert_int_equal(s->bytes, 0);
}

/* It sleeps after it has looked. */
static void test_spinning_ends(void **state) {
    struct scene *s = *state;
    struct rusage before, after;

    getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 1; i <= SLEEPS; i++) {
        assert_int_equal(deadline_set(&s->loop, &s->deadline, SLEEP_MS, on_time, s), 0);
        while (s->passed < i)
            hub_turn(s->hub, HUB_SPIN);
    }
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_nvcsw - before.ru_nvcsw >= SLEEPS);
}

/* What comes after many turns in which nothing did is still handled. */
static void test_spinning_begins_again(void **state) {
    struct scene *s = *state;

    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(deadline_set(&s->loop, &s->deadline, 1, on_time, s), 0);
        while (s->passed < i)
            hub_turn(s->hub, HUB_SPIN);
        assert_int_equal(write(s->in, "x", 1), 1);
        while (s->bytes < i)
            hub_turn(s->hub, HUB_SPIN);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ready_is_handled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_look_does_not_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spinning_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spinning_begins_again, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
