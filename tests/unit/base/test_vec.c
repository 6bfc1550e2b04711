/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/vec.h"

struct pair {
    int a, b;
};

static void test_add_keeps_what_is_there(void **state) {
    CLEANUP(freep) int *v = NULL;
    size_t n = 0;

    for (int i = 0; i < 1000; i++)
        assert_int_equal(VEC_ADD(v, n, i), 0);
    assert_int_equal(n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v[i], i);
}

/* Without a capacity field the room must follow from the count alone, also after it went down. Address sanitizers see a mistake. */
static void test_the_count_may_shrink(void **state) {
    CLEANUP(freep) int *v = NULL;
    size_t n = 0;

    for (size_t from = 0; from < 40; from++)
        for (size_t down = 0; down <= from; down++) {
            while (n < from)
                assert_int_equal(VEC_ADD(v, n, (int)n), 0);
            n = down;
            while (n < 40)
                assert_int_equal(VEC_ADD(v, n, (int)n), 0);
            for (size_t i = 0; i < 40; i++)
                assert_int_equal(v[i], (int)i);
            n = from;
        }
}

static void test_new_is_zeroed(void **state) {
    CLEANUP(freep) struct pair *v = NULL;
    size_t n = 0;

    for (int i = 0; i < 20; i++) {
        struct pair *p = VEC_NEW(v, n);

        assert_non_null(p);
        assert_ptr_equal(p, &v[n - 1]);
        assert_int_equal(p->a + p->b, 0);
        *p = (struct pair){i, -1};
    }
    n = 0;
    assert_int_equal(VEC_NEW(v, n)->b, 0);
}

static void test_insert_and_remove(void **state) {
    CLEANUP(freep) struct pair *v = NULL;
    size_t n = 0;

    for (int i = 0; i < 9; i++)
        assert_int_equal(VEC_INSERT(v, n, 0, (struct pair){i, i}), 0);
    assert_int_equal(VEC_INSERT(v, n, 9, (struct pair){-1, -1}), 0);
    assert_int_equal(n, 10);
    for (int i = 0; i < 9; i++)
        assert_int_equal(v[i].a, 8 - i);
    assert_int_equal(v[9].a, -1);
    VEC_REMOVE(v, n, 9);
    VEC_REMOVE(v, n, 0);
    VEC_REMOVE(v, n, 3);
    assert_int_equal(n, 7);
    assert_int_equal(v[0].a, 7);
    assert_int_equal(v[3].a, 3);
    assert_int_equal(v[6].a, 0);
}

/* Filled again, it needs no more memory: nothing of it shrinks. */
static void test_reserve(void **state) {
    CLEANUP(freep) struct pair *v = NULL;
    size_t cap = 0;

    for (int round = 0; round < 2; round++)
        for (size_t n = 0; n < 20; n++) {
            assert_int_equal(VEC_RESERVE(v, n, cap, 5), 0);
            v[n] = (struct pair){round, (int)n};
            assert_int_equal(cap, round ? 20 : n < 5 ? 5 : n < 10 ? 10 : 20);
        }
    assert_int_equal(v[19].b, 19);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_keeps_what_is_there),
        cmocka_unit_test(test_the_count_may_shrink),
        cmocka_unit_test(test_new_is_zeroed),
        cmocka_unit_test(test_insert_and_remove),
        cmocka_unit_test(test_reserve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
