/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/evloop.h"
#include "os/fd.h"
#include "os/sigfd.h"

/* One source whose calls are written down. */
struct item {
    struct evloop_source s;
    struct evloop *l;
    struct buf *log;
    char name;
    int in, out;
    int r;            /* what ready returns */
    bool drain;       /* what ready does */
    struct item *add; /* and to whom */
    size_t slots, came;
};

static int on_ready(void *arg, const struct pollfd *fds, size_t n) {
    struct item *i = arg;
    char c;

    buf_addc(i->log, i->name);
    i->came = 0;
    for (size_t k = 0; k < n; k++)
        i->came += fds[k].revents != 0;
    if (i->drain)
        assert_int_equal(fd_read_some(i->in, &c, 1), 1);
    if (i->add)
        assert_int_equal(evloop_add(i->l, &TAKE_PTR(i->add)->s), 0);
    return i->r;
}

static struct item item(struct evloop *l, struct buf *log, char name) {
    struct item i = {.l = l, .log = log, .name = name};

    assert_int_equal(fd_pipe(&i.in, &i.out), 0);
    i.s = (struct evloop_source){.fd = i.in, .events = POLLIN, .ready = on_ready};
    return i;
}

static void add(struct item *i) {
    i->s.arg = i;
    assert_int_equal(evloop_add(i->l, &i->s), 0);
}

static void wake(const struct item *i) {
    assert_int_equal(fd_write_all(i->out, "x", 1), 0);
}

struct three {
    struct evloop l;
    struct buf log;
    struct item a, b, c;
};

static struct three *three_new(void) {
    struct three *t = calloc(1, sizeof *t);

    t->log = (struct buf)BUF_INIT(1000);
    t->a = item(&t->l, &t->log, 'a');
    t->b = item(&t->l, &t->log, 'b');
    t->c = item(&t->l, &t->log, 'c');
    t->a.s.arg = &t->a;
    t->b.s.arg = &t->b;
    t->c.s.arg = &t->c;
    return t;
}

static void three_free(struct three *t) {
    evloop_done(&t->l);
    buf_done(&t->log);
    free(t);
    fd_close_from(3);
}

static void turn(struct three *t, int want_r, const char *want) {
    buf_clear(&t->log);
    assert_int_equal(evloop_turn(&t->l), want_r);
    assert_string_equal(buf_str(&t->log), want);
}

static void test_order(void **state) {
    struct three *t = three_new();

    (void)state;
    add(&t->a);
    add(&t->b);
    add(&t->c);
    wake(&t->c);
    wake(&t->a);
    turn(t, 0, "ac");
    t->a.drain = true;
    turn(t, 0, "ac");
    turn(t, 0, "c");
    t->b.s.each_turn = true;
    turn(t, 0, "bc");
    t->b.r = -EDOM; /* who comes later is not called */
    turn(t, -EDOM, "b");
    t->c.s.fd = -1;
    t->b.r = 0;
    t->a.drain = false;
    wake(&t->a);
    turn(t, 0, "ab");
    t->a.s.events = POLLOUT; /* a pipe's reading end is never that */
    t->b.s.at_ms = 1;
    turn(t, 0, "b");
    t->a.s.events = 0; /* not even its end */
    closep(&t->a.out);
    turn(t, 0, "b");
    three_free(t);
}

static void test_add(void **state) {
    struct three *t = three_new();
    struct evloop_source many[40];

    (void)state;
    add(&t->a);
    wake(&t->a);
    wake(&t->b);
    t->a.add = &t->b;
    turn(t, 0, "a");
    turn(t, 0, "ab");
    for (size_t i = 0; i < ARRAY_LEN(many); i++) {
        many[i] = t->b.s;
        assert_int_equal(evloop_add(&t->l, &many[i]), 0);
    }
    buf_clear(&t->log);
    assert_int_equal(evloop_turn(&t->l), 0);
    assert_int_equal(t->log.len, 2 + ARRAY_LEN(many));
    three_free(t);
}

static void test_timers(void **state) {
    struct three *t = three_new();
    uint64_t begun = clock_ms();

    (void)state;
    t->a.s.fd = t->b.s.fd = -1;
    t->a.s.at_ms = begun + 20;
    t->b.s.at_ms = begun + 3600000;
    add(&t->b);
    add(&t->a);
    add(&t->c);
    turn(t, 0, "a");
    assert_true(clock_ms() >= begun + 20);
    t->a.s.at_ms = 0;
    begun = clock_ms();
    t->b.s.at_ms = begun + 20;
    turn(t, 0, "b");
    assert_true(clock_ms() >= begun + 20);
    wake(&t->c);
    t->b.s.at_ms = clock_ms() + 3600000;
    turn(t, 0, "c");
    t->a.s.at_ms = 1; /* long ago: no wait, and all that came comes, too */
    turn(t, 0, "ac");
    three_free(t);
}

static void want_slots(struct evloop *l, void *arg) {
    struct item *i = arg;
    struct pollfd *slots = evloop_slots(l, i->slots);

    assert_non_null(slots);
    for (size_t k = 0; k < i->slots; k++)
        assert_int_equal(slots[k].fd, -1);
    slots[i->slots - 2] = (struct pollfd){.fd = i->in, .events = POLLIN};
    evloop_give_back(l, 1);
    evloop_want(l, i->in, POLLIN);
    evloop_want(l, i->out, POLLIN);
    evloop_wake_in(l, -1);
    evloop_wake_at(l, 0);
    evloop_wake_in(l, 3600000);
    evloop_wake_in(l, i->r ? 0 : 3500000);
}

/* More descriptors in every turn. */
static void test_prepare(void **state) {
    struct three *t = three_new();

    (void)state;
    t->b.s.prepare = want_slots;
    add(&t->a);
    add(&t->b);
    add(&t->c);
    wake(&t->b);
    wake(&t->c);
    for (t->b.slots = 2; t->b.slots < 200; t->b.slots += 7) {
        turn(t, 0, "bc");
        assert_int_equal(t->b.came, 2);
        assert_int_equal(t->b.s.n, t->b.slots - 1 + 2);
        assert_int_equal(t->c.came, 1);
    }
    t->b.drain = true;
    turn(t, 0, "bc");
    turn(t, 0, "c");
    t->b.drain = false;
    t->b.r = 1; /* more than 0 is no failure */
    turn(t, 0, "bc");
    assert_int_equal(t->b.came, 0);
    three_free(t);
}

static void do_nothing(int sig) {
    (void)sig;
}

static void test_interrupted(void **state) {
    struct three *t = three_new();
    const struct itimerval often = {.it_value.tv_usec = 10000, .it_interval.tv_usec = 10000},
                           off = {0}; /* the first may come too early */

    (void)state;
    add(&t->a);
    signal(SIGALRM, do_nothing);
    t->b.s.each_turn = true;
    add(&t->b);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    turn(t, 0, "b");
    setitimer(ITIMER_REAL, &off, NULL);
    signal(SIGALRM, SIG_DFL);
    three_free(t);
}

static int on_signals(void *arg, const struct pollfd *fds, size_t n) {
    struct signalfd_siginfo info;

    assert_int_equal(n, 1);
    while (sigfd_next(fds[0].fd, &info))
        *(int *)arg += (int)info.ssi_signo;
    return 0;
}

static int count_call(void *arg, const struct pollfd *fds, size_t n) {
    (void)fds;
    (void)n;
    ++*(int *)arg;
    return 0;
}

static void test_add_all(void **state) {
    struct evloop l = EVLOOP_INIT;
    int calls[3] = {0};
    struct evloop_source v[3];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        v[i] = (struct evloop_source){.fd = -1, .at_ms = 1, .ready = count_call, .arg = &calls[i]};
    assert_int_equal(evloop_add_all(&l, v, ARRAY_LEN(v)), 0);
    assert_int_equal(evloop_turn(&l), 0);
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        assert_int_equal(calls[i], 1);
    evloop_done(&l);
}

static void test_signals(void **state) {
    static const int some[] = {SIGUSR1, SIGUSR2};
    struct evloop l = EVLOOP_INIT;
    sigset_t old;
    int sum = 0, fd = sigfd_open(some, ARRAY_LEN(some), &old);
    struct evloop_source s = {.fd = fd, .events = POLLIN, .ready = on_signals, .arg = &sum};

    (void)state;
    assert_int_equal(evloop_add(&l, &s), 0);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    assert_int_equal(evloop_turn(&l), 0);
    assert_int_equal(sum, SIGUSR1 + SIGUSR2);
    evloop_done(&l);
    close(fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),   cmocka_unit_test(test_add),         cmocka_unit_test(test_timers),
        cmocka_unit_test(test_prepare), cmocka_unit_test(test_interrupted), cmocka_unit_test(test_signals),
        cmocka_unit_test(test_add_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
