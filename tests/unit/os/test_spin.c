/* SPDX-License-Identifier: Apache-2.0 */
/* How often is looked before a wait sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "os/spin.h"

enum { WAITS = 2000 };

/* One wait in which nothing comes; how often was looked. */
static unsigned wait_for_nothing(struct spin *s) {
    unsigned looks = 0;

    if (spin_begin(s))
        do
            looks++;
        while (spin_more(s, false));
    return looks;
}

static void test_found_at_once(void **state) {
    struct spin s = {0};

    (void)state;
    for (int i = 0; i < WAITS; i++) {
        assert_true(spin_begin(&s));
        assert_false(spin_more(&s, true));
    }
}

/* The pauses grow up to 255 waits: 1, 3, 7... */
static void test_pauses_grow(void **state) {
    struct spin s = {0};
    unsigned looked = 0, pause = 0, longest = 0;

    (void)state;
    for (int i = 0; i < WAITS; i++) {
        bool did = wait_for_nothing(&s) > 0;

        looked += did;
        pause = did ? 0 : pause + 1;
        longest = pause > longest ? pause : longest;
    }
    assert_int_equal(longest, 255);
    assert_in_range(looked, 8, 20);
}

static void test_pauses_end_when_it_pays(void **state) {
    struct spin s = {0};

    (void)state;
    for (int i = 0; i < WAITS; i++)
        wait_for_nothing(&s);
    while (!spin_begin(&s))
        ;
    assert_false(spin_more(&s, true));
    assert_true(spin_begin(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_at_once),
        cmocka_unit_test(test_pauses_grow),
        cmocka_unit_test(test_pauses_end_when_it_pays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
