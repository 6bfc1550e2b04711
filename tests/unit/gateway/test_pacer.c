/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/flow/pacer.h"

static int setup(void **state) {
    return pacer_new((struct pacer **)state);
}

static int teardown(void **state) {
    pacer_free(*state);
    return 0;
}

static uint64_t refuse(struct pacer *p, uint64_t now, const char *host, uint16_t port) {
    uint64_t ms = pacer_wait(p, now, host, port);

    if (ms)
        pacer_over(p);
    return ms;
}

/* At once, then slower and slower, but never for ever; other ports and hosts are not concerned. */
static void test_grows_to_a_bound(void **state) {
    uint64_t last = 0, ms;

    for (int i = 0; i < PACER_FREE; i++)
        assert_int_equal(refuse(*state, 1000, "a.example", 443), 0);
    for (int i = 0; i < 40; i++, last = ms) {
        ms = refuse(*state, 1000, "a.example", 443);
        assert_true(ms > 0 && ms <= PACER_MOST_MS);
        assert_true(ms == 2 * last || ms == PACER_MOST_MS || ms == PACER_FIRST_MS);
    }
    assert_int_equal(last, PACER_MOST_MS);
    assert_int_equal(refuse(*state, 1000, "a.example", 80), 0);
    assert_int_equal(refuse(*state, 1000, "b.example", 443), 0);
}

static void test_calms_down(void **state) {
    for (int i = 0; i < 40; i++)
        refuse(*state, 1000, "a.example", 443);
    assert_int_equal(refuse(*state, 1000 + PACER_CALM_MS, "a.example", 443), PACER_MOST_MS);
    assert_int_equal(refuse(*state, 1001 + 2 * PACER_CALM_MS, "a.example", 443), 0);
    for (int i = 0; i < 40; i++)
        refuse(*state, 1000 + 2 * PACER_CALM_MS, "a.example", 443);
    pacer_forget(*state);
    assert_int_equal(refuse(*state, 1000 + 2 * PACER_CALM_MS, "a.example", 443), 0);
}

/* A flood does not hold more connections than this. */
static void test_few_wait(void **state) {
    struct pacer *p = *state;
    size_t waiting = 0;

    for (int i = 0; i < PACER_FREE + 2 * PACER_WAITING; i++)
        waiting += pacer_wait(p, 1000, "a.example", 443) > 0;
    assert_int_equal(waiting, PACER_WAITING);
    pacer_over(p);
    assert_int_equal(pacer_wait(p, 1000, "a.example", 443), PACER_MOST_MS);
    assert_int_equal(pacer_wait(p, 1000, "a.example", 443), 0);
    assert_int_equal(pacer_wait(NULL, 1000, "a.example", 443), 0);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {T(test_grows_to_a_bound), T(test_calms_down), T(test_few_wait)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
