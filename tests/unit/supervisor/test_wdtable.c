/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "supervisor/watch/wdtable.h"

static void set(struct wdtable *t, int wd) {
    char text[16];

    snprintf(text, sizeof text, "%d", wd);
    assert_int_equal(wdtable_set(t, wd, text), 0);
}

static void check(const struct wdtable *t, int wd, bool there) {
    char text[16];

    snprintf(text, sizeof text, "%d", wd);
    if (there)
        assert_string_equal(wdtable_get(t, wd), text);
    else
        assert_null(wdtable_get(t, wd));
}

static void paths_come_and_go(void **state) {
    struct wdtable t = {0};

    (void)state;
    check(&t, 1, false);
    wdtable_remove(&t, 1);
    for (int wd = 1; wd <= 1000; wd++)
        set(&t, wd);
    assert_int_equal(wdtable_set(&t, 5, "other"), 0);
    assert_string_equal(wdtable_get(&t, 5), "other");
    assert_int_equal(t.n, 1000);
    for (int wd = 1; wd <= 1000; wd += 2)
        wdtable_remove(&t, wd);
    for (int wd = 1; wd <= 1000; wd++)
        check(&t, wd, wd % 2 == 0);
    wdtable_done(&t);
}

/* Descriptors that share a home, in every order of removal. */
static void collisions(void **state) {
    (void)state;
    for (int first = 0; first < 4; first++)
        for (int second = 0; second < 4; second++) {
            static const int wds[] = {3, 3 + 64, 3 + 128, 4};
            struct wdtable t = {0};

            for (int i = 0; i < 4; i++)
                set(&t, wds[i]);
            wdtable_remove(&t, wds[first]);
            wdtable_remove(&t, wds[second]);
            for (int i = 0; i < 4; i++)
                check(&t, wds[i], i != first && i != second);
            wdtable_done(&t);
        }
}

/* A sandbox that lives for weeks: as many watches as there ever were must not be as many entries. */
static void a_long_life(void **state) {
    struct wdtable t = {0};

    (void)state;
    for (int wd = 1; wd < 300000; wd++) {
        set(&t, wd);
        if (wd > 10)
            wdtable_remove(&t, wd - 10);
    }
    assert_int_equal(t.n, 10);
    assert_true(t.cap <= 64);
    wdtable_done(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(paths_come_and_go), cmocka_unit_test(collisions),
                                       cmocka_unit_test(a_long_life)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
